"""The data of a statistic, and its results: an estimate with its interval, and a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BoundedValue, EffectSize, Kind, Measure, MetricFacts
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.resampling.draws import UNSEEDED, Keys, MonteCarlo

if TYPE_CHECKING:
    from pytest_crucible.stats.results import Alikeness

    # They need scipy.special, which a session without slices does not load.
    from pytest_crucible.stats.slices.changes import SlicedColumns
    from pytest_crucible.stats.slices.slicing import Slicing


Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Clusters = npt.NDArray[np.int64]
Numbers = tuple[float, float]
# The values as observed, or with the lost ones where they make the statistic as low, or as high, as it can be.
End = Literal["observed", "low", "high"]
NumericKind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded"]


EXACT_PAIRS = "exact unconditional"
"""The method of ungrouped yes-or-no pairs in the table."""


@dataclass(frozen=True, slots=True)
class Column:
    """One metric in one arm, one entry a sample."""

    values: Floats
    """NaN if the sample was not scored."""
    low: Floats
    """The values, with lost ones at the lowest value that exists, perhaps -inf."""
    high: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The data of one arm that a row may use, cut to the samples that the metrics apply to."""

    measure: Measure
    facts: tuple[MetricFacts, ...]
    columns: tuple[Column, ...]
    """One for each metric of the measure, in its order."""
    lost: Flags
    """Samples of which a score of some metric is lost."""
    samples: Clusters | None = None
    """The sample of each entry, rising, where the entries are replies; None if each is a sample of its own."""
    at_looks: bool = False
    """Values must not depend on later samples, as linearised ones do."""
    clusters: Clusters | None = None
    expected: Sequence[Any] = ()
    """The samples' `expected`; empty unless the row uses it."""
    slicing: Slicing | None = None
    """The slices of the measure's field; None without one."""
    weights: Floats | None = None
    """How much each sample counts: the share of its replies that the metric applies to. None: all alike."""
    keys: Keys | None = None
    """A hash of each entry's sample id, by which permutation tests join samples into blocks; None: of its position."""
    monte_carlo: MonteCarlo = UNSEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Numbers that a row has made of observations, one a sample; for a percentile one a reply."""

    values: Floats
    strata: Floats | None = None
    """A second number a sample: its label, its bin."""
    clusters: Clusters | None = None
    kind: Kind = "unbounded"
    bounds: Numbers = (float("-inf"), float("inf"))
    ends: Numbers | None = None
    """The ends of the values, if these may exceed the bounds of the metric."""
    size: int | None = None
    """Number of replies, where a sample has several."""
    replies: tuple[Floats, Clusters] | None = None
    """Whether each of several replies to a sample fulfils a condition, 1 or 0, and its group or sample."""
    weights: Floats | None = None
    """How many replies each value is the mean of, where a sequence counts every reply."""
    heaviest: float = 1.0
    """The most samples (replies) that a group of the whole plan has, of which a sequence sees a part."""
    quantile: float = 0.5
    keys: Keys | None = None
    """A hash of each sample's id, see `Observations.keys`."""
    monte_carlo: MonteCarlo = UNSEEDED
    largest_change: float | None = None
    """The largest possible difference of two arms' values on one sample, if it is declared."""
    columns: SlicedColumns | None = None
    """Several metrics with their slices, where the statistic is the extreme of these."""
    problem: str = ""
    """Why nothing can be computed from these observations; empty if something can."""
    note: str = ""
    """A remark on a result that can be computed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with its two-sided interval and the method of both."""

    value: float | None
    interval: Interval | None
    clusters: int | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Candidate minus baseline, signed so that positive is better: the test, and the one-sided bounds of a margin."""

    value: float | None
    interval: Interval | None = None
    p_value: float | None = None
    """Of the test that the arms are alike, if the statistic has one; otherwise of its bounds."""
    p_exact: float | None = None
    lower: float | None = None
    upper: float | None = None
    method: str
    bounds_method: str = "none"
    n: int
    clusters: int | None
    deviation: float | None = None
    """Square root of n times the standard error; None if sample sizes cannot be planned from it."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds, which decides whether a difference is called proven."""
    alikeness: Alikeness | None = None
    """The permutation test that `p_value` is of; None if it is of another test."""
    higher_is_better: bool = True
    dof: float | None = None
    """Degrees of freedom of the standard error; None if it is one of n samples."""
    discordance: float | None = None
    """Proportion of pairs that disagree, where a paired test of proportions is planned by it."""
    span: float = float("inf")
    """High minus low end of the values."""
    ratio: str = ""
    """The name of the ratio if the numbers are its logarithms: "ratio of geometric means"."""
    detectable: Callable[[float], float | None] | None = None
    """Returns the smallest difference that n samples show at a two-sided alpha. None: it follows from the deviation."""
    samples: Callable[[float, float, float], int | None] | None = None
    """Returns the samples that prove the difference against a limit at a one-sided alpha. None: they follow from the deviation."""
    samples_past_limit: Callable[[float, float, float], int | None] | None = None
    """Like `samples`, for a margin alone: where the test goes by the deviation, and other bounds decide a margin."""
    effects: tuple[EffectSize, ...] = ()
    note: str = ""

    @property
    def smallest_p(self) -> float | None:
        """The smallest `p_value` that so many samples or groups can have; None if its test has no such limit."""
        return smallest_p_value(self.alikeness, self.method, self.n)


def smallest_p_value(alikeness: Alikeness | None, method: str, n: int) -> float | None:
    """Return the smallest p-value that a test of n samples can have; None if it has no such limit."""
    if alikeness is not None:
        return alikeness.smallest
    # Of yes-or-no pairs: all of them changed, and in one direction.
    return 2.0 / 2.0 ** min(n, 1000) if method == EXACT_PAIRS else None


class CrossedUnits(NamedTuple):
    """The units of a mean over samples and the levels of random factors."""

    cells: Floats
    """Units x levels of each factor; NaN is lost."""
    clusters: Clusters | None = None
    strata: Clusters | None = None
    """The number of each unit's stratum, if the mean is that of the strata's means."""


def no_data(prepared: Prepared) -> Measured:
    """Return the result if nothing can be computed."""
    return Measured(None, None, None, prepared.problem or "no data")


def no_bounds(prepared: Prepared) -> tuple[BoundedValue, str]:
    """Return the result if nothing can be bounded."""
    return BoundedValue(value=None), prepared.problem or "no data"


def counted_clusters(clusters: Clusters | None) -> int | None:
    return None if clusters is None else int(np.unique(clusters).size)
