"""Which method answers which question about which kind of metric: one table, and the four functions that follow it.

The method follows what was declared about the metric, never the look of the scores: no test of normality decides here.
Data that carry no answer give None with a note; only wrong input (NaN, unequal lengths, values out of bounds) raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from pytest_crucible.stats import methods
from pytest_crucible.stats.answers import Bound, Bounds, Compared, Estimated
from pytest_crucible.stats.asking import ask_interval, ask_one_sided, spread
from pytest_crucible.stats.declared import Kind, Observed, declared, declared_differences
from pytest_crucible.stats.observations import Labels, Range, Side

Question = Literal["estimate", "bound", "compare", "margin"]


class Row(NamedTuple):
    """One line of the table. Estimates and comparisons name an IntervalMethod, bounds and margins a OneSidedMethod."""

    question: Question
    kind: Kind
    clustered: bool
    method: str
    function: Callable[..., Any]


# fmt: off
TABLE = (
    Row("estimate", "binary",    False, "wilson",                  methods.wilson),
    Row("estimate", "binary",    True,  "korn-graubard",           methods.korn_graubard),
    Row("estimate", "bounded",   False, "t",                       methods.student),
    Row("estimate", "bounded",   True,  "cr2",                     methods.cr2),
    Row("estimate", "unbounded", False, "t",                       methods.student),
    Row("estimate", "unbounded", True,  "cr2",                     methods.cr2),
    Row("bound",    "binary",    False, "clopper-pearson",         methods.clopper_pearson_side),
    Row("bound",    "binary",    True,  "augmented korn-graubard", methods.korn_graubard_side),
    Row("bound",    "bounded",   False, "augmented t",             methods.augmented_t_side),
    Row("bound",    "bounded",   True,  "augmented cr2",           methods.augmented_cr2_side),
    Row("bound",    "unbounded", False, "t",                       methods.student_side),
    Row("bound",    "unbounded", True,  "cr2",                     methods.cr2_side),
    Row("compare",  "binary",    False, "tango",                   methods.tango_test),
    Row("compare",  "binary",    True,  "cr2",                     methods.cr2_test),
    Row("compare",  "bounded",   False, "paired t",                methods.paired_t_test),
    Row("compare",  "bounded",   True,  "cr2",                     methods.cr2_test),
    Row("compare",  "unbounded", False, "paired t",                methods.paired_t_test),
    Row("compare",  "unbounded", True,  "cr2",                     methods.cr2_test),
    Row("margin",   "binary",    False, "tango",                   methods.tango_side),
    Row("margin",   "binary",    True,  "augmented cr2",           methods.augmented_cr2_side),
    Row("margin",   "bounded",   False, "augmented t",             methods.augmented_t_side),
    Row("margin",   "bounded",   True,  "augmented cr2",           methods.augmented_cr2_side),
    Row("margin",   "unbounded", False, "paired t",                methods.student_side),
    Row("margin",   "unbounded", True,  "cr2",                     methods.cr2_side),
)
# fmt: on
_ROWS = {(row.question, row.kind, row.clustered): row for row in TABLE}

MANY_CLUSTERS = 20
"""Below this a comparison carries a note: the small-sample correction is then doing real work."""


def estimate_mean(
    values: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None = None, level: float = 0.95
) -> Estimated:
    """Mean of one arm with the interval to show. `value` is None without values.

    >>> estimate_mean([1, 1, 0, 1], kind="binary", bounds=(0, 1)).method
    'wilson'
    """
    seen = declared(values, kind=kind, bounds=bounds, clusters=clusters)
    row = _row("estimate", seen)
    tested, note = ask_interval(row.function, seen, level)
    return Estimated(
        value=seen.mean,
        interval=tested.interval,
        n=seen.values.size,
        clusters=seen.groups,
        method=row.method,
        note=note,
    )


def mean_bound(
    values: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    side: Side = "lower",
) -> Bound:
    """One-sided bound for the mean of one arm, which errs in at most a share alpha of experiments.

    >>> round(mean_bound([1] * 59, kind="binary", bounds=(0, 1), side="lower").value, 4)
    0.9505
    """
    seen = declared(values, kind=kind, bounds=bounds, clusters=clusters)
    row = _row("bound", seen)
    value, note = ask_one_sided(row.function, seen, alpha, side)
    return Bound(value=value, method=row.method, note=note)


def compare_paired(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> Compared:
    """Mean of candidate - baseline over pairs, with interval and p-value from one method. Arrays are paired by index.

    >>> result = compare_paired([1, 1, 1, 0], [0, 1, 1, 0], kind="binary", bounds=(0, 1))
    >>> result.difference, result.method, result.pairs
    (0.25, 'tango', 4)
    """
    seen = declared_differences(candidate, baseline, kind=kind, bounds=bounds, clusters=clusters)
    row = _row("compare", seen)
    tested, note = ask_interval(row.function, seen, level)
    if not note and seen.groups is not None and seen.groups < MANY_CLUSTERS:
        note = f"only {seen.groups} clusters: below {MANY_CLUSTERS} the interval leans on its small-sample correction"
    return Compared(
        difference=seen.mean,
        interval=tested.interval,
        p_value=tested.p_value,
        p_exact=tested.p_exact,
        pairs=seen.values.size,
        clusters=seen.groups,
        deviation=spread(seen),
        method=row.method,
        note=note,
    )


def difference_bounds(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: Labels | None = None,
    alpha: float = 0.05,
) -> Bounds:
    """The two one-sided bounds of candidate - baseline that a margin is judged by.

    >>> result = difference_bounds([1] * 50, [1] * 50, kind="binary", bounds=(0, 1))
    >>> round(result.low, 4), round(result.high, 4)
    (-0.0513, 0.0513)
    """
    seen = declared_differences(candidate, baseline, kind=kind, bounds=bounds, clusters=clusters)
    row = _row("margin", seen)
    low, note = ask_one_sided(row.function, seen, alpha, "lower")
    high, _ = ask_one_sided(row.function, seen, alpha, "upper")
    return Bounds(low=low, high=high, method=row.method, note=note)


def _row(question: Question, seen: Observed) -> Row:
    return _ROWS[question, seen.kind, seen.clusters is not None]
