"""A statistic as one row of the table: its declaration, and the functions that compute it.

Without numpy: each session reads the table to check its targets, and computes nothing before its first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BoundedValue, Measure, MetricFacts, Sample

if TYPE_CHECKING:
    import numpy.typing as npt

    from pytest_crucible.measures.row import (
        Clusters,
        CrossedUnits,
        Difference,
        End,
        Floats,
        Measured,
        Numbers,
        Observations,
        Prepared,
    )
    from pytest_crucible.stats.slices.slicing import Slicing


MOST_REPLIES = 2_000_000
"""Replies of an experiment that are analysed in memory: with two metrics, they take about 1 GiB. More are in batches."""
GEOMETRIC_MEANS = "ratio of geometric means"
RATIO_OF_MEANS = "ratio of means"
Check = Callable[[Measure, Sequence[MetricFacts]], str]
CheckValues = Callable[[Measure, Mapping[str, "Prepared"]], str]
Chances = Callable[["npt.ArrayLike", "npt.ArrayLike", int], "Floats"]
NoProof = Callable[[Measure, MetricFacts], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One row of the table. An addition is a module with these functions, and its row."""

    name: str
    title: str
    """Its name in sentences, such as "percentile"."""
    takes: tuple[str, ...]
    """What each of its metrics is, in order."""
    example: str
    prepare: Callable[[Observations, End], Prepared]
    estimate: Callable[[Prepared, float], Measured]
    """Returns the estimate with its two-sided interval at a level."""
    bound: Callable[[Prepared, float], tuple[BoundedValue, str]]
    """Returns the estimate with its one-sided bounds, each at alpha, and their method."""
    difference: Callable[[Prepared, Prepared, float], Difference | None]
    """The better arm's values first: (candidate, baseline) where higher is better."""
    value_range: Callable[[Measure, MetricFacts], Numbers]
    """The lowest and the highest value that it can have."""
    higher_is_better: Callable[[Measure, MetricFacts], bool]
    check: Check = lambda measure, facts: ""
    """Why the declared metrics cannot be used, or nothing."""
    check_values: CheckValues = lambda measure, arms: ""
    """Why the observed values of these arms cannot be compared, or nothing. It is an error in the suite: what is compared is
    declared, and never follows from the values."""
    samples_to_prove: Callable[[Prepared, float, float], int | None] = lambda prepared, limit, alpha: None
    """How many samples would prove the estimate against a limit at alpha, were it the truth."""
    no_proof: NoProof = lambda measure, facts: ""
    """Explain why nothing can be proven, or not on one side, and what to do; empty if the declared facts allow a proof."""
    no_margin: Callable[[Measure], str] = lambda measure: ""
    """Explains why a comparison takes no margin, and what to do; empty if it takes one."""
    planned_as: Callable[[Measure, MetricFacts], MetricFacts] | None = None
    """The metric whose mean the statistic is, by which sample sizes are planned before a run."""
    condition: Literal["never", "optional", "always"] = "never"
    chances: Chances | None = None
    """How likely k draws of a sample pass, by its replies and successes; its name then ends in k, as in `pass^3`. None: it is
    of no such draws."""
    percent_prefix: str | None = None
    """The letter of a name that ends in a percentage: `p` of `p95`."""
    expected_problem: Callable[[Sequence[Sample]], str] | None = None
    """Why it cannot use the samples' `expected`, or nothing. None: it does not use them."""
    of_slices: bool = False
    """It is the extreme of the slices of a field: its name needs `by`, it is decided by proof, and each of its metrics counts on
    the samples that this metric applies to."""
    over_slices: bool = False
    """It is one mean over the slices of a field: its name needs `by`, and which of them count alike, as in `by task, macro`."""
    may_omit_last: bool = False
    """The last of its metrics may be left out, and is then the only yes-or-no metric of the experiment."""
    takes_more: bool = False
    """It takes any number of metrics, each as the first."""
    of_replies: bool = False
    """It is about single replies. Others are about samples, whose repeats are averaged first."""
    is_mean: bool = False
    """Whether the statistic is a mean of one value a reply, or a multiple of it, so that random factors can be counted."""
    units: Callable[[Measure, Floats, Slicing, Clusters | None], CrossedUnits] | None = None
    """Returns what the samples' values at the levels of random factors are averaged to, for a mean over slices."""
    is_total: bool = False
    """It grows with the number of samples."""
    parts: tuple[str, ...] = ()
    """Parts of the metric that it is computed from, such as `pii.found` and `pii.annotated`; empty for the metric itself."""
    fills_inapplicable: bool = False
    """Its value with inapplicable samples at the metric's worst is reported too."""

    @property
    def counts_factors(self) -> bool:
        return self.is_mean or self.units is not None

    @property
    def by_field(self) -> bool:
        return self.of_slices or self.over_slices

    @property
    def uses_expected(self) -> bool:
        return self.expected_problem is not None

    @property
    def spelling(self) -> str:
        if self.percent_prefix is not None:
            return f"{self.percent_prefix}95"
        return self.name if self.chances is None else f"{self.name}3"


def lazy_function(module: str, name: str, **options: Any) -> Callable[..., Any]:
    """Return a function that is imported when it is called: some need most of scipy, and most sessions none of them."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return call


def refusal(measure: Measure, reason: str) -> str:
    """Return the note of a measure that is undecided for so many replies.

    >>> refusal(Measure(metric="score", statistic="auroc"), "it needs all of them at once")
    'auroc(score) is not computed for so many replies: it needs all of them at once'
    """
    return f"{measure.expression} is not computed for so many replies: {reason}"
