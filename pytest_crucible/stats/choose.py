"""The decision table and its methods: one for each question, design and kind of metric.

The method follows the metric's declaration, never the shape of the scores: no test of normality takes part.
Ordinal, count and positive metrics are bounded when both ends are known, and unbounded otherwise (`inputs.scale_of`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

from pytest_crucible.stats.arrays import Alternative, Side, check_choice
from pytest_crucible.stats.inputs import Arms, Observed, Scale, mean
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means import ratios
from pytest_crucible.stats.means.clustered import clustered_arms, clustered_interval, mean_of_units
from pytest_crucible.stats.means.differences import melded_bound, melded_p_value
from pytest_crucible.stats.means.gaffke import gaffke_bound_of, gaffke_p_value_of
from pytest_crucible.stats.means.moments import check_enough, distance
from pytest_crucible.stats.means.t_tests import t_test_of, welch_t
from pytest_crucible.stats.proportions.exact import (
    paired_exact_bound,
    paired_exact_test,
    paired_exact_test_p_value,
    two_exact_bound,
    two_exact_test,
)
from pytest_crucible.stats.proportions.one import clopper_pearson_bound, korn_graubard_bound_of, wilson_interval
from pytest_crucible.stats.proportions.paired import mcnemar_exact
from pytest_crucible.stats.resampling.alikeness import check_pairs, exchange_labels, flip_units
from pytest_crucible.stats.resampling.draws import Keys
from pytest_crucible.stats.results import Alikeness, Significance
from pytest_crucible.stats.sequential.paced_bets import betting_bound

GROUPED_RATE = "wider of korn-graubard and gaffke"


def wilson(arm: Observed, level: float) -> Interval | None:
    return wilson_interval(arm.signs[0], arm.size, level=level)


def grouped_rate(arm: Observed, level: float) -> Interval | None:
    """Return the interval of the two one-sided bounds that decide, so that both always agree."""
    low, high = (grouped_rate_side(arm, (1 - level) / 2, side) for side in ("lower", "upper"))
    return Interval(low=low, high=high, level=level, method=GROUPED_RATE)


def student(arm: Observed, level: float) -> Interval | None:
    if arm.size < 2:
        check_enough(arm.values)
    return t_test_of(arm.spread, "one-sample t", level=level, bounds=arm.bounds).interval


def cr2(arm: Observed, level: float) -> Interval | None:
    return clustered_interval(mean_of_units(arm.units), level=level, bounds=arm.bounds)


def clopper_pearson_side(arm: Observed, alpha: float, side: Side) -> float:
    return clopper_pearson_bound(arm.signs[0], arm.size, alpha=alpha, side=side)


def grouped_rate_side(arm: Observed, alpha: float, side: Side) -> float:
    """Return the wider one of Korn and Graubard's bound and Gaffke's.

    Korn and Graubard's errs in up to 18 % at a nominal 5 % where whole large groups fail (60 groups of Pareto sizes up to 60);
    Gaffke's, which gives each group one weight, in 5 %.
    """
    by_size = korn_graubard_bound_of(arm.units, alpha=alpha, side=side)
    by_weight = gaffke_bound_of(arm.units, end=0.0 if side == "lower" else 1.0, alpha=alpha, side=side)
    return min(by_size, by_weight) if side == "lower" else max(by_size, by_weight)


def gaffke_side(arm: Observed, alpha: float, side: Side) -> float | None:
    """Return None on a side without an end: a value that is too rare to be seen could move the mean anywhere."""
    end = arm.bounds[0 if side == "lower" else 1]
    if not math.isfinite(end):
        return None
    return gaffke_bound_of(arm.units, end=end, alpha=alpha, side=side)


def betting_side(arm: Observed, alpha: float, side: Side, keys: Keys | None = None) -> float:
    return betting_bound(arm.values, bounds=arm.bounds, alpha=alpha, side=side, clusters=arm.clusters, keys=keys)


def exact_test_of_pairs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = arms.pairs
    gained, lost = _discordant(observed)
    result = paired_exact_test(gained, lost, observed.size, level=level, alternative=alternative)
    # McNemar's conditional p-value, which readers may expect. It is two-sided.
    p_exact = mcnemar_exact(gained, lost) if alternative == "two-sided" else None
    # One procedure has the p-value and the interval, so the p-value is also that of the proof.
    return replace(result, proof_p=result.p_value, p_exact=p_exact, status="ok", note="")


def exact_p_value_of_pairs(arms: Arms, level: float) -> Significance:
    """Return the p-values of `exact_test_of_pairs`, in a third of its time."""
    observed = arms.pairs
    p_value = paired_exact_test_p_value(*_discordant(observed), observed.size, level=level)
    return Significance(method="exact unconditional", statistic=None, p_value=p_value, proof_p=p_value)


def flip_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return the test that the two replies to a sample could be exchanged. It has no interval: that is of the mean's bounds."""
    observed = arms.pairs
    check_pairs(observed.size)
    alike = flip_units(observed.blocks(arms.keys), alternative=alternative, monte_carlo=arms.monte_carlo)
    return of_alikeness(alike, observed.mean)


def of_alikeness(alike: Alikeness, estimate: float | None) -> Significance:
    """Return a permutation test as a result of the table."""
    p_value = alike.p_value
    return Significance(method=alike.method, statistic=None, p_value=p_value, alikeness=alike, estimate=estimate)


def t_interval_of_pairs(arms: Arms, level: float, alternative: Alternative) -> Interval | None:
    """Return Student's t interval, by clusters CR2's: approximate, for scores without ends, whose mean has no valid bound."""
    observed = arms.pairs
    if observed.clusters is None:
        return t_test_of(observed.spread, "paired t", alternative=alternative, level=level).interval
    mean = mean_of_units(observed.units)
    return clustered_interval(mean, level=level, bounds=observed.bounds, alternative=alternative)


def exact_side_of_pairs(arms: Arms, alpha: float, side: Side) -> float:
    observed = arms.pairs
    return paired_exact_bound(*_discordant(observed), observed.size, alpha=alpha, side=side)


def gaffke_side_of_pairs(arms: Arms, alpha: float, side: Side) -> float | None:
    return gaffke_side(arms.pairs, alpha, side)


def gaffke_p(arms: Arms, null: float, side: Side) -> float:
    observed = arms.pairs
    end = observed.bounds[0 if side == "lower" else 1]
    return gaffke_p_value_of(observed.units, null=null, end=end, side=side)


def no_side(arms: Arms, alpha: float, side: Side) -> None:
    """Return None: no bound holds for a difference of values without ends (Bahadur & Savage 1956, Ann. Math. Stat. 27:1115)."""


def betting_side_of_pairs(arms: Arms, alpha: float, side: Side) -> float:
    return betting_side(arms.pairs, alpha, side, arms.keys)


def _discordant(observed: Observed) -> tuple[int, int]:
    check_pairs(observed.size)
    return observed.signs


def exact_test_of_arms(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    result = two_exact_test(*_counts(arms), alternative=alternative, level=level)
    return replace(result, proof_p=result.p_value)


def label_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return the test that the labels of the arms could be exchanged. It has no interval: that is of the means' bounds.

    Clusters that are in both arms cannot change places: then there is no such test.
    """
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    alike = exchange_labels(
        candidate.values, baseline.values, clusters=clusters, alternative=alternative, monte_carlo=arms.monte_carlo
    )
    return of_alikeness(alike, distance(mean(candidate.values), mean(baseline.values)))


def t_interval_of_arms(arms: Arms, level: float, alternative: Alternative) -> Interval | None:
    """Return Welch's t interval, by clusters CR2's: approximate, for scores without ends, whose means have no valid bound."""
    values = arms.candidate.values, arms.baseline.values
    if not arms.clustered:
        return welch_t(*values, alternative=alternative, level=level).interval
    labels = arms.candidate.labels, arms.baseline.labels
    return clustered_arms(*values, *labels, alternative=alternative, level=level).interval


def exact_side_of_arms(arms: Arms, alpha: float, side: Side) -> float | None:
    return two_exact_bound(*_counts(arms), alpha=alpha, side=side)


def melded_side(arms: Arms, alpha: float, side: Side) -> float:
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    return melded_bound(
        candidate.values, baseline.values, bounds=candidate.bounds, alpha=alpha, side=side, clusters=clusters
    )


def melded_p(arms: Arms, null: float, side: Side) -> float:
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    return melded_p_value(
        candidate.values, baseline.values, null=null, bounds=candidate.bounds, side=side, clusters=clusters
    )


def _counts(arms: Arms) -> tuple[int, int, int, int]:
    candidate, baseline = arms.candidate, arms.baseline
    return candidate.signs[0], candidate.size, baseline.signs[0], baseline.size


Question = Literal[
    "estimate",
    "bound",
    "guaranteed bound",
    "compare",
    "margin",
    "guaranteed margin",
    "ratio",
    "ratio claim",
    "ratio margin",
]
Design = Literal["one arm", "pairs", "two arms"]


class Row(NamedTuple):
    """One row of the table.

    Estimates and ratios return intervals; bounds and margins, one-sided bounds; comparisons, a test that the arms are alike. The
    interval of a comparison is that of the margin's bounds.
    """

    question: Question
    design: Design
    scale: Scale
    clustered: bool
    method: str
    function: Callable[..., Any]
    p_value: Callable[..., float] | None = None
    """The one-sided p-value that agrees with a bound: the smallest alpha at which the bound excludes a null."""


# fmt: off
TABLE = (
    Row("estimate", "one arm", "binary",    False, "wilson",                  wilson),
    Row("estimate", "one arm", "binary",    True,  GROUPED_RATE,       grouped_rate),
    Row("estimate", "one arm", "bounded",   False, "t",                       student),
    Row("estimate", "one arm", "bounded",   True,  "cr2",                     cr2),
    Row("estimate", "one arm", "unbounded", False, "t",                       student),
    Row("estimate", "one arm", "unbounded", True,  "cr2",                     cr2),
    Row("bound",    "one arm", "binary",    False, "clopper-pearson",         clopper_pearson_side),
    Row("bound",    "one arm", "binary",    True,  GROUPED_RATE,       grouped_rate_side),
    Row("bound",    "one arm", "bounded",   False, "gaffke",                  gaffke_side),
    Row("bound",    "one arm", "bounded",   True,  "gaffke",                  gaffke_side),
    Row("bound",    "one arm", "unbounded", False, "gaffke",                  gaffke_side),
    Row("bound",    "one arm", "unbounded", True,  "gaffke",                  gaffke_side),
    Row("compare",  "pairs",    "binary",    False, "exact unconditional",    exact_test_of_pairs),
    Row("compare",  "pairs",    "binary",    True,  "sign flips",             flip_test),
    Row("compare",  "pairs",    "bounded",   False, "sign flips",             flip_test),
    Row("compare",  "pairs",    "bounded",   True,  "sign flips",             flip_test),
    Row("compare",  "pairs",    "unbounded", False, "sign flips",             flip_test),
    Row("compare",  "pairs",    "unbounded", True,  "sign flips",             flip_test),
    Row("margin",   "pairs",    "binary",    False, "exact unconditional",    exact_side_of_pairs),
    Row("margin",   "pairs",    "binary",    True,  "gaffke",                 gaffke_side_of_pairs, gaffke_p),
    Row("margin",   "pairs",    "bounded",   False, "gaffke",                 gaffke_side_of_pairs, gaffke_p),
    Row("margin",   "pairs",    "bounded",   True,  "gaffke",                 gaffke_side_of_pairs, gaffke_p),
    Row("margin",   "pairs",    "unbounded", False, "none",                   no_side),
    Row("margin",   "pairs",    "unbounded", True,  "none",                   no_side),
    Row("compare",  "two arms", "binary",    False, "exact unconditional",    exact_test_of_arms),
    Row("compare",  "two arms", "binary",    True,  "exchanged labels",       label_test),
    Row("compare",  "two arms", "bounded",   False, "exchanged labels",       label_test),
    Row("compare",  "two arms", "bounded",   True,  "exchanged labels",       label_test),
    Row("compare",  "two arms", "unbounded", False, "exchanged labels",       label_test),
    Row("compare",  "two arms", "unbounded", True,  "exchanged labels",       label_test),
    Row("margin",   "two arms", "binary",    False, "exact unconditional",    exact_side_of_arms),
    Row("margin",   "two arms", "binary",    True,  "melded gaffke",          melded_side, melded_p),
    Row("margin",   "two arms", "bounded",   False, "melded gaffke",          melded_side, melded_p),
    Row("margin",   "two arms", "bounded",   True,  "melded gaffke",          melded_side, melded_p),
    Row("margin",   "two arms", "unbounded", False, "none",                   no_side),
    Row("margin",   "two arms", "unbounded", True,  "none",                   no_side),
    Row("ratio",    "pairs",    "unbounded", False, "paired t of logarithms", ratios.paired_logs),
    Row("ratio",    "pairs",    "unbounded", True,  "cr2 of logarithms",      ratios.clustered_logs),
    Row("ratio",    "two arms", "unbounded", False, "welch of logarithms",    ratios.welch_logs),
    Row("ratio",    "two arms", "unbounded", True,  "cr2 of logarithms",      ratios.clustered_logs_of_two_arms),
    Row("ratio claim",  "pairs",    "unbounded", False, "gaffke of logarithms", ratios.gaffke_logs),
    Row("ratio claim",  "pairs",    "unbounded", True,  "gaffke of logarithms", ratios.gaffke_logs),
    Row("ratio margin", "pairs",    "unbounded", False, "gaffke of logarithms", ratios.gaffke_logs_side),
    Row("ratio margin", "pairs",    "unbounded", True,  "gaffke of logarithms", ratios.gaffke_logs_side),
    Row("ratio margin", "two arms", "unbounded", False, "welch of logarithms",  ratios.welch_logs_side),
    Row("ratio margin", "two arms", "unbounded", True,  "cr2 of logarithms",    ratios.clustered_logs_of_two_arms_side),
    Row("guaranteed bound",  "one arm", "binary",  False, "clopper-pearson",  clopper_pearson_side),
    Row("guaranteed bound",  "one arm", "binary",  True,  "betting",          betting_side),
    Row("guaranteed bound",  "one arm", "bounded", False, "betting",          betting_side),
    Row("guaranteed bound",  "one arm", "bounded", True,  "betting",          betting_side),
    Row("guaranteed margin", "pairs",   "binary",  False, "betting",          betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "binary",  True,  "betting",          betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "bounded", False, "betting",          betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "bounded", True,  "betting",          betting_side_of_pairs),
)
# fmt: on
"""Every combination that has a method, once."""

_ROWS = {(row.question, row.design, row.scale, row.clustered): row for row in TABLE}


def find_row(question: Question, design: Design, scale: Scale, *, clustered: bool) -> Row:
    """Return the row for a question. Raises ValueError for a missing one, such as a guaranteed margin of two arms."""
    match = _ROWS.get((question, design, scale, clustered))
    if match is None:
        values = "clustered values" if clustered else "values"
        raise ValueError(f"there is no {question} for {scale} {values} of {design}: see the table in stats.TABLE")
    return match


Validity = Literal["standard", "guaranteed"]
_QUESTIONS: dict[tuple[str, Validity], Question] = {
    ("bound", "standard"): "bound",
    ("bound", "guaranteed"): "guaranteed bound",
    ("margin", "standard"): "margin",
    ("margin", "guaranteed"): "guaranteed margin",
}


def validity_question(question: Literal["bound", "margin"], validity: Validity) -> Question:
    """Return the question to look up in the table. Raises ValueError for an unknown validity."""
    # Checked here, because a KeyError of the table would not name the choices.
    check_choice(validity, get_args(Validity), "validity")
    return _QUESTIONS[question, validity]
