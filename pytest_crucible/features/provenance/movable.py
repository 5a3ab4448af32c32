"""The answers of an arm that can turn to their best or worst, and what distinguishes their effects."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import ScoredMetric, row_of
from pytest_crucible.features.provenance.what_if import Answers, Question, single_scores
from pytest_crucible.measures.means import RELATIONS
from pytest_crucible.measures.values import numeric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BoundedValue, Contrast, Measure, MetricFacts, Target

Places = npt.NDArray[np.int64]
MONOTONE = ("mean", "rate", "count", "pass^", "pass@", "quantile")
"""Statistics that rise with each score; a gap or a ratio between slices may fall."""
OF_EXTREMES = ("gap", "ratio", "worst")
"""Statistics of the best and worst of several slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The answers of one arm that can turn one way, those that move furthest first."""

    arm: int
    is_better: bool
    answers: Answers
    distances: Floats
    """How far each of them moves."""


def undefined_reason(question: Question) -> str:
    """Return why no answer can move to a bound; empty if one can."""
    measure, facts = question.measure, question.facts
    if len(measure.metrics) > 1 or measure.written:
        return "it is of several metrics, whose scores do not move alone"
    if measure.inner_relation is None and not all(map(math.isfinite, ends_of(facts))):
        return f"{measure.metric} has no bounds that an answer could move to"
    if facts.reach is not None:
        return f"{measure.metric} declares a reach, which an answer at a bound would refute"
    # As many sizes of a set are tried as there are answers: a change may be undone. A decision takes half a second of 400 pairs.
    if isinstance(measure, Contrast) and measure.statistic in OF_EXTREMES:
        return f"two arms are compared by the {measure.statistic} of slices, and the fewest answers are searched of means and rates"
    # A decision over crossed noise takes up to a second, and a search takes thousands.
    if question.table.attributes.random_factors:
        factors = " and ".join(question.table.attributes.random_factors)
        return f"{factors} are random as well as samples, and the fewest answers are searched where samples alone are"
    return ""


def is_counted(question: Question) -> bool:
    """Return whether only numbers matter: of yes-or-no answers, one a sample, without groups, in pairs of up to four kinds."""
    measure, attributes = question.measure, question.table.attributes
    return (
        is_binary(measure, question.facts)
        and measure.statistic in ("mean", "rate")
        and attributes.clusters is None
        and not attributes.random_factors
        and question.rest is None
        and all(scores_of(question, number).scores.units is None for number in question.numbers)
    )


def is_one_sided(question: Question) -> bool:
    """Return whether answers that turn one way move the verdict one way only, from missed to met or back."""
    measure = question.measure
    relation = measure.relation if isinstance(measure, Target) else measure.alternative
    return measure.statistic in MONOTONE and relation not in ("==", "equivalent")


def is_by_sum(question: Question) -> bool:
    """Return whether the state depends on the sum of the scores alone: then no fewer answers change it than those that move most.

    A target has such a state if its estimate decides it: also without bounds it is then met or missed.
    """
    measure = question.measure
    units = scores_of(question, 0).scores.units
    return (
        isinstance(measure, Target)
        and measure.statistic in ("mean", "rate")
        and measure.by is None
        and (measure.relation != "==" or is_binary(measure, question.facts))
        and (units is None or not np.isnan(units.values[question.chosen]).any())
        and question.decide_as_if(BoundedValue(value=measure.value))[0] != "undecided"
    )


def is_binary(measure: Measure, facts: MetricFacts) -> bool:
    return measure.inner_relation is not None or numeric(facts.kind) == "binary"


def ends_of(facts: MetricFacts) -> tuple[float, float]:
    """Return the lowest and the highest score that an answer can have."""
    return (0.0, 1.0) if numeric(facts.kind) == "binary" else (facts.low, facts.high)


def scores_of(question: Question, number: int) -> ScoredMetric:
    """Return the scores of an arm that the verdict is about."""
    return question.table.arm(question.measure, number)[0]


def movable_answers(question: Question, number: int, is_better: bool) -> Moves:
    """Return the answers of an arm that can turn better, or worse."""
    measure, facts = question.measure, question.facts
    own = question.table.scores[measure.metric][number]
    scores, goal = single_scores(own), _goal(measure, facts, is_better)
    moves = np.zeros(scores.shape, dtype=bool)
    if goal is not None:
        moves = question.chosen[:, None] & ~np.isnan(scores) & _is_short_of(measure, facts, scores, is_better, goal)
    rows, columns = np.nonzero(moves)
    distances = np.abs((goal or 0.0) - scores[rows, columns])
    order = np.lexsort((rows, -distances))
    return Moves(
        arm=number,
        is_better=is_better,
        answers=Answers(number, rows[order], columns[order], goal or 0.0),
        distances=distances[order],
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
        return np.asarray(holding(measure, scores) != holds)


def holding(measure: Measure, values: Floats) -> Flags:
    """Return which values fulfil the measure's condition; without one, which are above 0."""
    return np.asarray(RELATIONS[measure.inner_relation or ">"](values, measure.inner_value or 0.0), dtype=np.bool_)


def pair_kinds(question: Question, moves: Moves) -> tuple[Places, Places]:
    """Return the places of answers whose pair is right in the other arm, and of those whose pair is wrong."""
    measure = question.measure
    every: Places = np.arange(len(moves.answers))
    if not isinstance(measure, Contrast) or measure.unpaired:
        return every, every[:0]
    other = question.numbers[1 - question.numbers.index(moves.arm)]
    holds = holding(measure, scores_of(question, other).scores.values[moves.answers.positions])
    is_right = holds == row_of(measure).higher_is_better(measure, question.facts)
    return every[is_right], every[~is_right]


def set_kinds(question: Question, moves: Moves) -> list[object]:
    """Return what distinguishes the effect of one answer from that of another: its group, its score and that of its pair."""
    measure, answers, clusters = question.measure, moves.answers, question.table.attributes.clusters
    own = scores_of(question, moves.arm).scores
    scores = single_scores(question.table.scores[measure.metric][moves.arm])[answers.positions, answers.units]
    others = np.zeros(len(answers))
    if isinstance(measure, Contrast) and not measure.unpaired:
        number = question.numbers[1 - question.numbers.index(moves.arm)]
        others = scores_of(question, number).scores.values[answers.positions]
    if measure.inner_relation is not None:
        scores, others = (np.asarray(holding(measure, values), dtype=float) for values in (scores, others))
    groups = np.full(len(answers), -1)
    if clusters is not None:
        # Answers in groups of one sample are exchangeable.
        sizes = np.bincount(clusters[question.chosen])
        groups = np.where(sizes[clusters[answers.positions]] == 1, -1, clusters[answers.positions])
    # Of slices, and of rates over labels, each answer has a place of its own.
    is_alike = measure.statistic in MONOTONE and measure.by is None
    is_alone = is_alike and own.units is None and question.rest is None and not question.table.attributes.random_factors
    places = np.zeros(len(answers)) if is_alone else answers.positions
    return list(zip(groups.tolist(), places.tolist(), scores.tolist(), others.tolist(), strict=True))
