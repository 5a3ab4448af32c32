"""How fragile a verdict is: the fewest answers, and the fewest lost samples, that would change it.

All answers of a set are of one arm, and turn the same way: to right (or the best score), or to wrong (or the worst).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.comparisons import paired_samples
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.analyse.statistics import ScoredMetric, inapplicable_samples, lost_samples, row_of
from pytest_crucible.features.provenance.rough_decision import guess_fewest
from pytest_crucible.features.provenance.verdict_facts import Flip, Fragility, LostFlip
from pytest_crucible.features.provenance.what_if import Answer, Question, leave_out, single_scores
from pytest_crucible.gate.decide import Decision
from pytest_crucible.measures.means import RELATIONS
from pytest_crucible.measures.values import numeric
from pytest_crucible.records import Contrast, Measure, MetricFacts
from pytest_crucible.stats.fragility import fewest_answers, smallest_set, splits

SMALL = 16
"""Up to so many samples all sets of scores are tried."""
MOST_SETS = 5_000
"""Sets that are tried for one arm and direction. It takes seconds, and is enough for any set of twelve answers."""

Differs = Callable[[Decision], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The answers of one arm that can turn one way, the most influential first."""

    arm: int
    is_better: bool
    answers: tuple[Answer, ...]
    kinds: tuple[object, ...]
    """Answers of one kind have the same effect."""


def measure_fragility(question: Question) -> Fragility:
    """Return the fewest answers, and lost samples, that change a verdict."""
    undefined = undefined_reason(question)
    if undefined:
        return Fragility(undefined=undefined, lost=count_lost(question), counts_lost=True)
    decided = question.decide()
    change = _fewest(question, lambda other: other != decided)
    of_state = change
    if change is not None and change.state == decided[0]:
        of_state = _fewest(question, lambda other: other[0] != decided[0])
    return Fragility(change=change, change_of_state=of_state, lost=count_lost(question), counts_lost=True)


def undefined_reason(question: Question) -> str:
    """Return why no answer can move to a bound; empty if one can."""
    measure, facts = question.measure, question.facts
    if len(measure.metrics) > 1 or measure.written:
        return "it is of several metrics, whose scores do not move alone"
    if measure.inner_relation is None and not all(map(math.isfinite, ends_of(facts))):
        return f"{measure.metric} has no bounds that an answer could move to"
    if facts.reach is not None:
        return f"{measure.metric} declares a reach, which an answer at a bound would refute"
    return ""


def _fewest(question: Question, differs: Differs) -> Flip | None:
    """Return the smallest set of answers after which the decision differs; of two arms the candidate's, if it is as small."""
    fewest: Flip | None = None
    for number in question.numbers:
        for is_better in (True, False):
            moves = movable_answers(question, number, is_better)
            # Where only numbers of pairs matter, an answer of either arm moves the same pairs.
            if number and fewest is not None and is_counted(question) and _has_room(question, fewest):
                continue
            flip = _fewest_moves(question, moves, differs)
            if flip is not None and (fewest is None or flip.answers < fewest.answers):
                fewest = flip
    return fewest


def _has_room(question: Question, flip: Flip) -> bool:
    """Return whether the candidate has as many answers of each kind as its set: then the baseline has no smaller one."""
    kinds = Counter(movable_answers(question, 0, flip.is_better).kinds)
    return (
        isinstance(question.measure, Contrast)
        and not question.measure.unpaired
        and min(kinds.values()) >= flip.answers
        and len(kinds) == 2
    )


def _fewest_moves(question: Question, moves: Moves, differs: Differs) -> Flip | None:
    if not moves.answers:
        return None
    chosen: Sequence[int] | None
    if is_counted(question):
        chosen, is_exact = _fewest_of_kinds(question, moves, differs), True
    else:
        chosen, is_exact = _fewest_of_scores(question, moves, differs)
    if chosen is None:
        return None
    answers = [moves.answers[place] for place in chosen]
    state, proven = question.decide(answers)
    ids = question.inputs.sample_ids
    return Flip(
        answers=len(answers),
        is_exact=is_exact,
        arm=question.analysis.plan.arms[moves.arm].name,
        is_better=moves.is_better,
        state=state,
        proven=proven,
        samples=tuple(ids[answer.position] if ids else str(answer.position) for answer in answers),
    )


def is_counted(question: Question) -> bool:
    """Return whether only numbers matter: of yes-or-no answers, one a sample, without groups, in pairs of up to four kinds."""
    measure, attributes = question.measure, question.table.attributes
    return (
        is_binary(measure, question.facts)
        and measure.statistic in ("mean", "rate")
        and attributes.clusters is None
        and not attributes.random_factors
        and question.rest is None
        and all(_of_arm(question, number).scores.units is None for number in question.numbers)
    )


def is_binary(measure: Measure, facts: MetricFacts) -> bool:
    return measure.inner_relation is not None or numeric(facts.kind) == "binary"


def ends_of(facts: MetricFacts) -> tuple[float, float]:
    """Return the lowest and the highest score that an answer can have."""
    return (0.0, 1.0) if numeric(facts.kind) == "binary" else (facts.low, facts.high)


def _of_arm(question: Question, number: int) -> ScoredMetric:
    """Return the scores of an arm that the verdict is about."""
    return question.table.arm(question.measure, number)[0]


def movable_answers(question: Question, number: int, is_better: bool) -> Moves:
    """Return the answers of an arm that can turn better, or worse."""
    measure, facts = question.measure, question.facts
    own = question.table.scores[measure.metric][number]
    scores = single_scores(_of_arm(question, number)._replace(scores=own))
    chosen = question.chosen
    goal = _goal(measure, facts, is_better)
    if goal is None:
        return Moves(arm=number, is_better=is_better, answers=(), kinds=())
    moves = chosen[:, None] & ~np.isnan(scores) & _is_short_of(measure, facts, scores, is_better, goal)
    rows, columns = np.nonzero(moves)
    amounts = np.abs(goal - scores[rows, columns])
    kinds = _kinds(question, number, rows, scores[rows, columns])
    order = np.lexsort((rows, -amounts))
    return Moves(
        arm=number,
        is_better=is_better,
        answers=tuple(Answer(number, int(rows[k]), int(columns[k]), goal) for k in order),
        kinds=tuple(kinds[k] for k in order),
    )


def _goal(measure: Measure, facts: MetricFacts, is_better: bool) -> float | None:
    """Return the score to which an answer moves; None if no score is on that side of a condition."""
    low, high = ends_of(facts)
    if measure.inner_relation is None:
        return high if is_better == (facts.direction == "higher") else low
    threshold = measure.inner_value or 0.0
    holds = is_better == row_of(measure).higher_is_better(measure, facts)
    near = (threshold, math.nextafter(threshold, math.inf), math.nextafter(threshold, -math.inf))
    scores = [score for score in (high, low, *near) if low <= score <= high]
    relation = RELATIONS[measure.inner_relation]
    return next((s for s in scores if math.isfinite(s) and bool(relation(s, threshold)) == holds), None)


def _is_short_of(measure: Measure, facts: MetricFacts, scores: Floats, is_better: bool, goal: float) -> Flags:
    """Return which scores are not yet on the side of the goal."""
    if measure.inner_relation is None:
        is_apart: Flags = np.asarray(scores != goal)
        return is_apart
    holds = is_better == row_of(measure).higher_is_better(measure, facts)
    with np.errstate(invalid="ignore"):
        return np.asarray(_holds(measure, scores) != holds)


def _kinds(question: Question, number: int, rows: np.typing.NDArray[np.int64], scores: Floats) -> Sequence[object]:
    """Return what distinguishes the effect of one answer from that of another."""
    other = next((k for k in question.numbers if k != number), None)
    measure, clusters = question.measure, question.table.attributes.clusters
    others = np.zeros(rows.size)
    if isinstance(measure, Contrast) and not measure.unpaired and other is not None:
        others = _of_arm(question, other).scores.values[rows]
    if measure.inner_relation is not None:
        scores, others = (np.asarray(_holds(measure, values), dtype=float) for values in (scores, others))
    groups = np.zeros(rows.size) if clusters is None else clusters[rows]
    is_alone = _of_arm(question, number).scores.units is None and question.rest is None
    is_alone = is_alone and not question.table.attributes.random_factors
    places = np.zeros(rows.size) if is_alone else rows
    return list(zip(groups.tolist(), places.tolist(), scores.tolist(), others.tolist(), strict=True))


def _holds(measure: Measure, values: Floats) -> Flags:
    return np.asarray(RELATIONS[measure.inner_relation or ">"](values, measure.inner_value or 0.0), dtype=np.bool_)


def _fewest_of_kinds(question: Question, moves: Moves, differs: Differs) -> list[int] | None:
    """Return the places of the fewest of at most two kinds of answers, which are exchangeable within each kind."""
    places: dict[object, list[int]] = {}
    for place, kind in enumerate(moves.kinds):
        places.setdefault(kind, []).append(place)
    first, second = [*places.values(), [], []][:2]
    rooms = len(first), len(second)

    def sets(number: int) -> Iterator[list[int]]:
        return ([*first[:ours], *second[:theirs]] for ours, theirs in splits(number, rooms))

    def changes(number: int) -> bool:
        return any(differs(question.decide([moves.answers[place] for place in chosen])) for chosen in sets(number))

    guess = guess_fewest(question, moves.arm, moves.is_better, differs)
    fewest = fewest_answers(changes, len(moves.answers), guess=guess)
    if fewest is None:
        return None
    return next(s for s in sets(fewest) if differs(question.decide([moves.answers[place] for place in s])))


def _fewest_of_scores(question: Question, moves: Moves, differs: Differs) -> tuple[Sequence[int] | None, bool]:
    """Return the places of few answers, and whether no fewer do: for few samples all sets are tried."""

    def changes(chosen: Sequence[int]) -> bool:
        return differs(question.decide([moves.answers[place] for place in chosen]))

    found = []
    for order in _orders(question, moves):
        few = fewest_answers(partial(_changes_first, changes, order), len(order))
        found += [order[:few]] if few else []
    best = min(found, key=len, default=None)
    if int(question.chosen.sum()) > SMALL:
        return best, False
    below = len(moves.answers) + 1 if best is None else len(best)
    smaller, is_exact = smallest_set(moves.kinds, changes, below=below, most_sets=MOST_SETS)
    return smaller or best, is_exact


def _changes_first(changes: Callable[[Sequence[int]], bool], order: list[int], number: int) -> bool:
    return changes(order[:number])


def _orders(question: Question, moves: Moves) -> list[list[int]]:
    """Return orders of the answers, the most influential first: by how far each moves, and group by group."""
    order = list(range(len(moves.answers)))
    clusters = question.table.attributes.clusters
    if clusters is None:
        return [order]
    far: dict[int, float] = {}
    scores = single_scores(_of_arm(question, moves.arm))
    for answer in moves.answers:
        group = int(clusters[answer.position])
        far[group] = far.get(group, 0.0) + abs(answer.score - scores[answer.position, answer.unit])
    groups = [int(clusters[answer.position]) for answer in moves.answers]
    return [order, sorted(order, key=lambda place: (-far[groups[place]], groups[place]))]


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
    unscored = np.any([np.isnan(_of_arm(question, number).scores.values) for number in question.numbers], axis=0)

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


def _by_harm(question: Question, lost: Flags, is_better: bool) -> np.typing.NDArray[np.int64]:
    """Return the places of lost samples, first those that move the estimate most."""
    values = []
    for number in question.numbers:
        scores = _of_arm(question, number).scores
        is_up = (is_better == (number == 0)) == (question.facts.direction == "higher")
        values.append(scores.high if is_up else scores.low)
    effect = values[0] - values[1] if len(values) == 2 else values[0]
    sign = 1.0 if is_better == (question.facts.direction == "higher") else -1.0
    places = np.flatnonzero(lost)
    with np.errstate(invalid="ignore"):
        return places[np.argsort(-sign * np.nan_to_num(effect[places]), kind="stable")]
