"""Verdicts on other answers: the evidence is weighed again from changed scores, and the gate decides again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse import conditional
from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable
from pytest_crucible.analyse.comparisons import OBSERVED, Arms, paired_samples, weigh_evidence
from pytest_crucible.analyse.scores import Flags, Floats, Scores, Units
from pytest_crucible.analyse.slices import keep_slice
from pytest_crucible.analyse.statistics import (
    SampleAttributes,
    keep_own_samples,
    lost_samples,
    prepare,
    row_of,
    scored_samples,
)
from pytest_crucible.analyse.targets import weigh_target
from pytest_crucible.gate.decide import Decision
from pytest_crucible.measures.means import weigh_means
from pytest_crucible.measures.row import End
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Analysis,
    BoundedValue,
    Comparison,
    Contrast,
    Evidence,
    MetricFacts,
    Target,
    TargetResult,
)
from pytest_crucible.stats.resampling.draws import resolve_for

_MEANS = ("mean", "rate", "pass^", "pass@")


@dataclass(frozen=True, slots=True)
class Answers:
    """Replies of one arm, each in one repeat, with the score that they would have instead of their own."""

    arm: int
    """The arm's number in the plan: 0 is the candidate."""
    positions: npt.NDArray[np.int64]
    """Each sample's place in the dataset."""
    units: npt.NDArray[np.int64]
    """Each reply among those of the arm to its sample."""
    score: float

    def __len__(self) -> int:
        return int(self.positions.size)

    def at(self, places: npt.NDArray[np.int64]) -> Answers:
        """Return the answers at some places of these."""
        return replace(self, positions=self.positions[places], units=self.units[places])


@dataclass(frozen=True)
class Question:
    """A target or a comparison with the scores that it was decided on, and the rule of the gate."""

    analysis: Analysis
    result: TargetResult | Comparison
    inputs: AnalysisInputs
    table: ScoreTable
    rest: ScoreTable | None
    """The scores without excluded samples; None if the verdict has no such evidence."""
    alpha: float
    """The error rate of the evidence."""
    family_size: int
    rule: Callable[[TargetResult | Comparison], Decision]

    @property
    def measure(self) -> Target | Contrast:
        return self.result.target if isinstance(self.result, TargetResult) else self.result.contrast

    @property
    def facts(self) -> MetricFacts:
        return self.table.facts[self.measure.metric]

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the arms in the plan: the candidate, and of a comparison the baseline."""
        if isinstance(self.measure, Target):
            return (0,)
        names = [arm.name for arm in self.analysis.plan.arms]
        return 0, names.index(self.measure.baseline)

    @cached_property
    def chosen(self) -> Flags:
        """The samples that the evidence is of, in the dataset's order."""
        arms = [self.table.arm(self.measure, number) for number in self.numbers]
        if isinstance(self.measure, Contrast):
            return paired_samples(self.measure, *arms)[0]
        return scored_samples(arms[0], alone=row_of(self.measure).of_slices)

    def decide(self, answers: Answers | None = None) -> Decision:
        """Return state and proof of the verdict with other scores of some answers."""
        key: tuple[Any, ...] = ()
        if answers is not None:
            key = answers.arm, answers.score, answers.positions.tobytes(), answers.units.tobytes()
        if key not in self._decisions:
            self._decisions[key] = self.decide_on(*self._with(answers))
        return self._decisions[key]

    @cached_property
    def _decisions(self) -> dict[tuple[Any, ...], Decision]:
        return {}

    def decide_without(self, samples: Flags) -> Decision:
        """Return state and proof of the verdict as if some samples had not been in the dataset."""
        tables = (self.table, self.rest) if self.rest else (self.table,)
        return self.decide_on(*(_map_arms(self, table, lambda scores: leave_out(scores, samples)) for table in tables))

    def decide_on(self, table: ScoreTable, rest: ScoreTable | None = None) -> Decision:
        """Return state and proof of the verdict on other scores."""
        result = replace(self.result, evidence=self.weigh(table))
        if rest is not None and result.reduced is not None:
            result = replace(result, reduced=replace(result.reduced, evidence=self.weigh(rest)))
        return self.rule(result)

    def decide_as_if(self, reading: BoundedValue) -> Decision:
        """Return state and proof of the verdict, were this the reading whatever the lost samples are."""
        evidence = Evidence(observed=reading, worst=reading, best=reading, method="")
        return self.rule(replace(self.result, evidence=evidence, reduced=None))

    def weigh(self, table: ScoreTable) -> Evidence:
        """Return the evidence from a table of scores."""
        measure, attributes = self.measure, table.attributes_of(self.measure)
        if isinstance(measure, Target):
            metrics, attributes = keep_own_samples(self.analysis.plan, table.arm(measure, 0), attributes)
            return weigh_target(measure, metrics, attributes, alpha=self.alpha)[0]
        arms = table.arm(measure, 0), table.arm(measure, self.numbers[1])
        if is_plain_mean(measure, arms, attributes):
            return _weigh_plain_mean(measure, arms, attributes, self.alpha, self.family_size)
        return weigh_evidence(measure, arms, attributes, alpha=self.alpha, family_size=self.family_size)

    @cached_property
    def is_weighed_in_part(self) -> bool:
        """A decision needs a part of the evidence; all that a comparison prints takes ten times as long and more."""
        measure = self.measure
        if isinstance(measure, Target):
            return True
        arms = self.table.arm(measure, 0), self.table.arm(measure, self.numbers[1])
        return is_plain_mean(measure, arms, self.table.attributes_of(measure))

    def _with(self, answers: Answers | None) -> tuple[ScoreTable, ScoreTable | None]:
        if answers is None:
            return self.table, self.rest
        name = self.measure.metric

        def change(table: ScoreTable) -> ScoreTable:
            arms = list(table.scores[name])
            arms[answers.arm] = put_answers(arms[answers.arm], answers)
            return replace(table, scores={**table.scores, name: tuple(arms)})

        return change(self.table), self.rest and change(self.rest)


def is_plain_mean(contrast: Contrast, arms: Arms, attributes: SampleAttributes) -> bool:
    """Return whether arms are compared by a difference of paired means, by the table of methods."""
    facts = arms[0][0].facts
    row = comparison_row(contrast, facts)
    return (
        row.name in _MEANS
        and row is row_of(contrast)
        and not contrast.unpaired
        and not attributes.random_factors
        and attributes.look_alpha is None
        and not row.no_proof(contrast, facts)
        and facts.reach is None
        and not conditional.is_conditional(contrast, *arms)
    )


def _weigh_plain_mean(
    contrast: Contrast, arms: Arms, attributes: SampleAttributes, alpha: float, family_size: int
) -> Evidence:
    """Return the part of the evidence that decides, in a fraction of the time: a margin needs no test, and a test no bounds."""
    attributes = replace(attributes, monte_carlo=resolve_for(alpha, family_size, attributes.monte_carlo.seed))
    pairs, applicable = paired_samples(contrast, *arms)
    is_higher = row_of(contrast).higher_is_better(contrast, arms[0][0].facts)

    def read(chosen: Flags, ends: tuple[End, End]) -> BoundedValue:
        first, second = (
            prepare(contrast, metrics, attributes, chosen, end) for metrics, end in zip(arms, ends, strict=True)
        )
        if not chosen.any() or not all(np.isfinite(arm.values).all() for arm in (first, second)):
            return BoundedValue(value=None)
        first, second = (first, second) if is_higher else (second, first)
        return weigh_means(first, second, alpha, by_test=contrast.margin is None, by_bounds=contrast.decided_by_bounds)

    observed = worst = best = read(pairs, OBSERVED)
    if (np.any([lost_samples(metrics) for metrics in arms], axis=0) & applicable).any():
        low: End = "low" if is_higher else "high"
        high: End = "high" if is_higher else "low"
        worst, best = read(applicable, (low, high)), read(applicable, (high, low))
    return Evidence(observed=observed, worst=worst, best=best, method="")


def put_answers(scores: Scores, answers: Answers) -> Scores:
    """Return the scores of an arm with another one for some answers; those without a score have none."""
    size, rows, columns = len(scores.values), answers.positions, answers.units
    if scores.units is None:
        rows = rows[~np.isnan(scores.values[rows])]
        return replace(scores, **{name: _put(getattr(scores, name), rows, answers.score) for name in _ENDS})
    cells = {name: getattr(scores.units, name).reshape(size, -1).copy() for name in _ENDS}
    is_scored = ~np.isnan(cells["values"][rows, columns])
    rows, columns = rows[is_scored], columns[is_scored]
    for name in _ENDS:
        cells[name][rows, columns] = answers.score
    changed = np.unique(rows)
    means: dict[str, Any] = {
        name: _put(getattr(scores, name), changed, np.nanmean(cells[name][changed], axis=1)) for name in _ENDS
    }
    shape = scores.units.values.shape
    units = Units(**{name: cells[name].reshape(shape) for name in _ENDS}, lost=scores.units.lost)
    return replace(scores, units=units, **means)


_ENDS = ("values", "low", "high")


def _put(values: Floats, places: npt.NDArray[np.int64], new: Floats | float) -> Any:
    copied = values.copy()
    copied[places] = new
    return copied


def leave_out(scores: Scores, samples: Flags) -> Scores:
    """Return the scores of an arm as if the metric applied to none of some samples, and none of these were lost."""
    return keep_slice(scores, ~samples)


def _map_arms(question: Question, table: ScoreTable, change: Callable[[Scores], Scores]) -> ScoreTable:
    name = question.measure.metric
    return replace(table, scores={**table.scores, name: tuple(map(change, table.scores[name]))})


def single_scores(scores: Scores) -> Floats:
    """Return the scores of single replies, samples x replies; NaN where a reply has none."""
    return scores.values[:, None] if scores.units is None else scores.units.values.reshape(len(scores.values), -1)
