"""The fewest lost samples that would have to turn out badly, or well, to change what the scored ones decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.comparisons import paired_samples
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.statistics import inapplicable_samples, lost_samples, row_of
from pytest_crucible.features.provenance.movable import is_counted, scores_of
from pytest_crucible.features.provenance.verdict_facts import LostFlip
from pytest_crucible.features.provenance.what_if import Question, leave_out
from pytest_crucible.gate.decide import Decision
from pytest_crucible.records import Contrast
from pytest_crucible.stats.fragility import fewest_answers


def count_lost(question: Question) -> LostFlip | None:
    """Return the fewest lost samples that change what the scored ones decide, by the verdict's own worst and best values."""
    lost = _lost(question)
    if not lost.any():
        return None
    decided = question.decide_on(*_tables(question, lost))
    flips = [_count_lost(question, lost, is_better, decided) for is_better in (False, True)]
    return min(filter(None, flips), key=lambda flip: flip.samples, default=None)


def _lost(question: Question) -> Flags:
    """Return the samples that the verdict counts as lost."""
    arms = [question.table.arm(question.measure, number) for number in question.numbers]
    lost = np.any([lost_samples(metrics) for metrics in arms], axis=0)
    if isinstance(question.measure, Contrast):
        return np.asarray(lost & paired_samples(question.measure, *arms)[1])
    return np.asarray(lost & ~inapplicable_samples(arms[0]))


def _tables(question: Question, forgotten: Flags) -> tuple[ScoreTable, ...]:
    """Return the scores as if what is lost of some samples had never been asked for."""
    name = question.measure.metric
    unscored = np.any([np.isnan(scores_of(question, number).scores.values) for number in question.numbers], axis=0)

    def forget(scores: Scores) -> Scores:
        return leave_out(_without_lost(scores, forgotten), forgotten & unscored)

    tables = (question.table, question.rest) if question.rest else (question.table,)
    return tuple(
        replace(table, scores={**table.scores, name: tuple(map(forget, table.scores[name]))}) for table in tables
    )


def _without_lost(scores: Scores, samples: Flags) -> Scores:
    """Return the scores with those replies of some samples alone that are scored."""
    low, high = (np.where(samples, scores.values, end) for end in (scores.low, scores.high))
    units = scores.units
    if units is not None:
        wide = samples.reshape(-1, *[1] * (units.values.ndim - 1))
        units = replace(
            units,
            low=np.where(wide, units.values, units.low),
            high=np.where(wide, units.values, units.high),
            lost=units.lost & ~wide,
        )
    return replace(scores, low=low, high=high, lost=scores.lost & ~samples, units=units)


def _count_lost(question: Question, lost: Flags, is_better: bool, decided: Decision) -> LostFlip | None:
    order = _by_harm(question, lost, is_better)
    decisions: dict[int, Decision] = {}

    def changes(number: int) -> bool:
        left = lost.copy()
        left[order[:number]] = False
        evidence = question.weigh(_tables(question, left)[0])
        decisions[number] = question.decide_as_if(
            evidence.best if is_better == _is_best_up(question) else evidence.worst
        )
        return decisions[number] != decided

    fewest = fewest_answers(changes, len(order))
    if fewest is None:
        return None
    state, proven = decisions[fewest]
    return LostFlip(
        samples=fewest, is_exact=is_counted(question), of=len(order), is_better=is_better, state=state, proven=proven
    )


def _is_best_up(question: Question) -> bool:
    """Return whether the `best` reading is that of good answers: of a target it is the one with the highest values."""
    if isinstance(question.measure, Contrast):
        return True
    return row_of(question.measure).higher_is_better(question.measure, question.facts)


def _by_harm(question: Question, lost: Flags, is_better: bool) -> npt.NDArray[np.int64]:
    """Return the places of lost samples, first those that move the estimate most."""
    values = []
    for number in question.numbers:
        scores = scores_of(question, number).scores
        is_up = (is_better == (number == 0)) == (question.facts.direction == "higher")
        values.append(scores.high if is_up else scores.low)
    effect = values[0] - values[1] if len(values) == 2 else values[0]
    sign = 1.0 if is_better == (question.facts.direction == "higher") else -1.0
    places = np.flatnonzero(lost)
    with np.errstate(invalid="ignore"):
        return places[np.argsort(-sign * np.nan_to_num(effect[places]), kind="stable")]
