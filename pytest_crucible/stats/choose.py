"""The decision table: one method for each question, design and kind of metric.

The method follows the metric's declaration, never the shape of the scores: no test of normality takes part.
Ordinal, count and positive metrics are bounded when both ends are known, and unbounded otherwise (`inputs.scale_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pytest_crucible.stats.inputs import Scale
from pytest_crucible.stats.methods import one_arm, pairs, ratios, two_arms

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
    Row("estimate", "one arm", "binary",    False, "wilson",                  one_arm.wilson),
    Row("estimate", "one arm", "binary",    True,  one_arm.GROUPED_RATE,       one_arm.grouped_rate),
    Row("estimate", "one arm", "bounded",   False, "t",                       one_arm.student),
    Row("estimate", "one arm", "bounded",   True,  "cr2",                     one_arm.cr2),
    Row("estimate", "one arm", "unbounded", False, "t",                       one_arm.student),
    Row("estimate", "one arm", "unbounded", True,  "cr2",                     one_arm.cr2),
    Row("bound",    "one arm", "binary",    False, "clopper-pearson",         one_arm.clopper_pearson_side),
    Row("bound",    "one arm", "binary",    True,  one_arm.GROUPED_RATE,       one_arm.grouped_rate_side),
    Row("bound",    "one arm", "bounded",   False, "gaffke",                  one_arm.gaffke_side),
    Row("bound",    "one arm", "bounded",   True,  "gaffke",                  one_arm.gaffke_side),
    Row("bound",    "one arm", "unbounded", False, "gaffke",                  one_arm.gaffke_side),
    Row("bound",    "one arm", "unbounded", True,  "gaffke",                  one_arm.gaffke_side),
    Row("compare",  "pairs",    "binary",    False, "exact unconditional",    pairs.exact_test),
    Row("compare",  "pairs",    "binary",    True,  "sign flips",             pairs.flip_test),
    Row("compare",  "pairs",    "bounded",   False, "sign flips",             pairs.flip_test),
    Row("compare",  "pairs",    "bounded",   True,  "sign flips",             pairs.flip_test),
    Row("compare",  "pairs",    "unbounded", False, "sign flips",             pairs.flip_test),
    Row("compare",  "pairs",    "unbounded", True,  "sign flips",             pairs.flip_test),
    Row("margin",   "pairs",    "binary",    False, "exact unconditional",    pairs.exact_side),
    Row("margin",   "pairs",    "binary",    True,  "gaffke",                 pairs.gaffke_side, pairs.gaffke_p),
    Row("margin",   "pairs",    "bounded",   False, "gaffke",                 pairs.gaffke_side, pairs.gaffke_p),
    Row("margin",   "pairs",    "bounded",   True,  "gaffke",                 pairs.gaffke_side, pairs.gaffke_p),
    Row("margin",   "pairs",    "unbounded", False, "none",                   pairs.no_side),
    Row("margin",   "pairs",    "unbounded", True,  "none",                   pairs.no_side),
    Row("compare",  "two arms", "binary",    False, "exact unconditional",    two_arms.exact_test),
    Row("compare",  "two arms", "binary",    True,  "exchanged labels",       two_arms.label_test),
    Row("compare",  "two arms", "bounded",   False, "exchanged labels",       two_arms.label_test),
    Row("compare",  "two arms", "bounded",   True,  "exchanged labels",       two_arms.label_test),
    Row("compare",  "two arms", "unbounded", False, "exchanged labels",       two_arms.label_test),
    Row("compare",  "two arms", "unbounded", True,  "exchanged labels",       two_arms.label_test),
    Row("margin",   "two arms", "binary",    False, "exact unconditional",    two_arms.exact_side),
    Row("margin",   "two arms", "binary",    True,  "melded gaffke",          two_arms.melded_side, two_arms.melded_p),
    Row("margin",   "two arms", "bounded",   False, "melded gaffke",          two_arms.melded_side, two_arms.melded_p),
    Row("margin",   "two arms", "bounded",   True,  "melded gaffke",          two_arms.melded_side, two_arms.melded_p),
    Row("margin",   "two arms", "unbounded", False, "none",                   pairs.no_side),
    Row("margin",   "two arms", "unbounded", True,  "none",                   pairs.no_side),
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
    Row("guaranteed bound",  "one arm", "binary",  False, "clopper-pearson",  one_arm.clopper_pearson_side),
    Row("guaranteed bound",  "one arm", "binary",  True,  "betting",          one_arm.betting_side),
    Row("guaranteed bound",  "one arm", "bounded", False, "betting",          one_arm.betting_side),
    Row("guaranteed bound",  "one arm", "bounded", True,  "betting",          one_arm.betting_side),
    Row("guaranteed margin", "pairs",   "binary",  False, "betting",          pairs.betting_side),
    Row("guaranteed margin", "pairs",   "binary",  True,  "betting",          pairs.betting_side),
    Row("guaranteed margin", "pairs",   "bounded", False, "betting",          pairs.betting_side),
    Row("guaranteed margin", "pairs",   "bounded", True,  "betting",          pairs.betting_side),
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
