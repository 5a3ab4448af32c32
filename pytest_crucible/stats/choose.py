"""The decision table: one method for each question, design and kind of metric.

The method follows the metric's declaration, never the shape of the scores: no test of normality takes part.
Ordinal, count and positive metrics are bounded when both ends are known, and unbounded otherwise (`inputs.scale_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from pytest_crucible.stats import methods
from pytest_crucible.stats.arrays import check_choice
from pytest_crucible.stats.inputs import Scale
from pytest_crucible.stats.means import ratios

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
    Row("estimate", "one arm", "binary",    False, "wilson",                  methods.wilson),
    Row("estimate", "one arm", "binary",    True,  methods.GROUPED_RATE,       methods.grouped_rate),
    Row("estimate", "one arm", "bounded",   False, "t",                       methods.student),
    Row("estimate", "one arm", "bounded",   True,  "cr2",                     methods.cr2),
    Row("estimate", "one arm", "unbounded", False, "t",                       methods.student),
    Row("estimate", "one arm", "unbounded", True,  "cr2",                     methods.cr2),
    Row("bound",    "one arm", "binary",    False, "clopper-pearson",         methods.clopper_pearson_side),
    Row("bound",    "one arm", "binary",    True,  methods.GROUPED_RATE,       methods.grouped_rate_side),
    Row("bound",    "one arm", "bounded",   False, "gaffke",                  methods.gaffke_side),
    Row("bound",    "one arm", "bounded",   True,  "gaffke",                  methods.gaffke_side),
    Row("bound",    "one arm", "unbounded", False, "gaffke",                  methods.gaffke_side),
    Row("bound",    "one arm", "unbounded", True,  "gaffke",                  methods.gaffke_side),
    Row("compare",  "pairs",    "binary",    False, "exact unconditional",    methods.exact_test_of_pairs),
    Row("compare",  "pairs",    "binary",    True,  "sign flips",             methods.flip_test),
    Row("compare",  "pairs",    "bounded",   False, "sign flips",             methods.flip_test),
    Row("compare",  "pairs",    "bounded",   True,  "sign flips",             methods.flip_test),
    Row("compare",  "pairs",    "unbounded", False, "sign flips",             methods.flip_test),
    Row("compare",  "pairs",    "unbounded", True,  "sign flips",             methods.flip_test),
    Row("margin",   "pairs",    "binary",    False, "exact unconditional",    methods.exact_side_of_pairs),
    Row("margin",   "pairs",    "binary",    True,  "gaffke",                 methods.gaffke_side_of_pairs, methods.gaffke_p),
    Row("margin",   "pairs",    "bounded",   False, "gaffke",                 methods.gaffke_side_of_pairs, methods.gaffke_p),
    Row("margin",   "pairs",    "bounded",   True,  "gaffke",                 methods.gaffke_side_of_pairs, methods.gaffke_p),
    Row("margin",   "pairs",    "unbounded", False, "none",                   methods.no_side),
    Row("margin",   "pairs",    "unbounded", True,  "none",                   methods.no_side),
    Row("compare",  "two arms", "binary",    False, "exact unconditional",    methods.exact_test_of_arms),
    Row("compare",  "two arms", "binary",    True,  "exchanged labels",       methods.label_test),
    Row("compare",  "two arms", "bounded",   False, "exchanged labels",       methods.label_test),
    Row("compare",  "two arms", "bounded",   True,  "exchanged labels",       methods.label_test),
    Row("compare",  "two arms", "unbounded", False, "exchanged labels",       methods.label_test),
    Row("compare",  "two arms", "unbounded", True,  "exchanged labels",       methods.label_test),
    Row("margin",   "two arms", "binary",    False, "exact unconditional",    methods.exact_side_of_arms),
    Row("margin",   "two arms", "binary",    True,  "melded gaffke",          methods.melded_side, methods.melded_p),
    Row("margin",   "two arms", "bounded",   False, "melded gaffke",          methods.melded_side, methods.melded_p),
    Row("margin",   "two arms", "bounded",   True,  "melded gaffke",          methods.melded_side, methods.melded_p),
    Row("margin",   "two arms", "unbounded", False, "none",                   methods.no_side),
    Row("margin",   "two arms", "unbounded", True,  "none",                   methods.no_side),
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
    Row("guaranteed bound",  "one arm", "binary",  False, "clopper-pearson",  methods.clopper_pearson_side),
    Row("guaranteed bound",  "one arm", "binary",  True,  "betting",          methods.betting_side),
    Row("guaranteed bound",  "one arm", "bounded", False, "betting",          methods.betting_side),
    Row("guaranteed bound",  "one arm", "bounded", True,  "betting",          methods.betting_side),
    Row("guaranteed margin", "pairs",   "binary",  False, "betting",          methods.betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "binary",  True,  "betting",          methods.betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "bounded", False, "betting",          methods.betting_side_of_pairs),
    Row("guaranteed margin", "pairs",   "bounded", True,  "betting",          methods.betting_side_of_pairs),
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
