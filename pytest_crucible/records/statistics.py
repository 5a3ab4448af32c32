"""Statistics of the scores: estimates, evidence, comparisons; and numbers that are known before sampling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from pytest_crucible.features import load_rows
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.measures import Contrast, MetricFacts, Target
from pytest_crucible.stats.interval import Interval

if TYPE_CHECKING:
    from pytest_crucible.records.arms import Arm
    from pytest_crucible.records.plan import Plan


class EvaluateKnown(Protocol):
    def __call__(self, target: Target, arm: Arm, *, alpha: float, is_fixed: bool) -> TargetResult:
        """Return the result of a target. `is_fixed` declares that it is about the arm's own sources alone."""


@dataclass(frozen=True)
class KnownNumber:
    """A number that is known before sampling. A row that a feature adds to `known_numbers`."""

    facts: MetricFacts
    """Its name, with the values that it can have."""
    source: str
    """What has the number, and is counted instead of samples: `training`. It is the statistic of its estimate."""
    evaluate: EvaluateKnown


@cache
def known_numbers() -> Mapping[str, KnownNumber]:
    """Return the numbers by name, those of features that are left out, too."""
    return {number.facts.name: number for _, number in load_rows("known_numbers")}


def targets_on_samples(targets: Iterable[Target]) -> list[Target]:
    """Return the targets that samples decide."""
    return [target for target in targets if target.metric not in known_numbers()]


def claims_on_samples(plan: Plan) -> list[Target | Contrast]:
    """Return the targets and comparisons of a plan that get a verdict by the samples' scores."""
    return [*targets_on_samples(plan.targets), *(contrast for contrast in plan.contrasts if contrast.decides)]


@cache
def known_sources() -> frozenset[str]:
    """Return what the numbers are of."""
    return frozenset(number.source for number in known_numbers().values())


# The exponential of a larger logarithm overflows a float.
_LARGEST_LOGARITHM = 709.0


def interval_ends(interval: Interval | None) -> dict[str, float | None]:
    """Return `low` and `high` of an interval for a JSON document; both None without an interval."""
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One statistic of one metric in one arm. n counts samples."""

    metric: str
    statistic: str
    arm: str
    n: int
    lost: int
    inapplicable: int
    value: float | None
    unconditional: float | None
    """The mean with inapplicable samples at the worst value; None when there are none or no worst value exists."""
    interval: Interval | None
    clusters: int | None
    method: str
    replies: int | None = None
    """How many replies a rate, a percentile or a count is of, where a sample has several. A mean averages them first."""
    uneven: str = ""
    """How many replies there are, and what counts alike, where samples have unequal numbers of them; else empty."""

    @property
    def is_known(self) -> bool:
        """True if the number was known before sampling, as one of a training, and not estimated from replies."""
        return self.statistic in known_sources()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedValue:
    """A value and its bounds from one set of values: as observed, or with the lost ones at an extreme.

    `lower` and `upper` are one-sided bounds at level 1 - alpha each; None if none can be had.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None
    """Of the test that the arms are alike; of the bounds, for a statistic that has no such test."""
    proof_p: float | None = None
    """Of the two one-sided bounds, two-sided: whether the difference is proven to have its sign."""
    smallest_p: float | None = None
    """The smallest `p_value` that so many samples or groups can have; None if it is that of the bounds."""
    lower_of: str = ""
    """The slices that the lower bound is of, for a statistic that is the extreme of several; empty for others."""
    upper_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence for a target or a comparison: as observed, and with the lost samples at their worst and best."""

    observed: BoundedValue
    worst: BoundedValue
    best: BoundedValue
    method: str

    @property
    def weakest_p_value(self) -> float | None:
        """The largest p-value over all values of the lost samples; None if they could reverse the difference."""
        return self._weakest([reading.p_value for reading in self._readings])

    @property
    def weakest_proof_p(self) -> float | None:
        """The largest p-value of the bounds, likewise."""
        return self._weakest([reading.proof_p for reading in self._readings])

    @property
    def _readings(self) -> tuple[BoundedValue, ...]:
        return self.observed, self.worst, self.best

    def _weakest(self, p_values: Sequence[float | None]) -> float | None:
        values = [reading.value for reading in self._readings if reading.value is not None]
        finite = [p_value for p_value in p_values if p_value is not None]
        is_one_way = all(value > 0 for value in values) or all(value < 0 for value in values)
        return max(finite) if len(finite) == len(values) == len(p_values) and is_one_way else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedEvidence:
    """The evidence for a target or a comparison without the samples that the plan excludes."""

    evidence: Evidence
    n: int
    """Samples, or pairs, that are left."""
    lost: int
    excluded: int
    """Number of excluded samples, or pairs, that the whole evidence counts."""
    reason: str
    """What the excluded samples did, as it reads after "the 69 that"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """A target, the estimate that it is about, and its evidence."""

    target: Target
    estimate: Estimate
    evidence: Evidence
    needed: int | None
    """About how many samples would prove it at this estimate; None when no number would."""
    note: str = ""
    """The source of a number of the training; or why an estimate or a bound is missing, and what to do."""
    suite_error: str = ""
    """The reason why the target is impossible, as the metric's values have shown: it gets no verdict."""
    reduced: ReducedEvidence | None = None
    """The evidence without excluded samples; None if the estimate has none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSize:
    """The size of a difference, on a scale that is customary for the metric's kind. Signed as the difference is."""

    name: str
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Candidate over baseline. Above 1 the candidate has more, whether that is better or worse."""

    name: str
    """`ratio of geometric means`, or `ratio of means`."""
    value: float
    interval: Interval | None
    higher_is_better: bool

    def of(self, difference: float) -> float:
        """Return the ratio of a difference of logarithms that is signed so that positive is better; infinite on overflow."""
        logarithm = difference if self.higher_is_better else -difference
        return math.exp(logarithm) if logarithm < _LARGEST_LOGARITHM else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondReach:
    """A sample that changed by more than its metric declares possible, so that nothing may rest on the declaration."""

    sample: str
    change: float
    """Candidate minus baseline, positive where it is better: the largest change of all samples."""
    baseline: str
    reach: float
    samples: int
    """Number of samples that changed by more than the reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Candidate minus baseline on the samples that both arms answered, signed so that positive is better.

    Where the arms are compared by a ratio, the difference, its interval, the bounds and the detectable difference are those of
    logarithms.
    """

    contrast: Contrast
    candidate: str
    pairs: int
    lost: int
    clusters: int | None = None
    difference: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    """Of the test that the arms are alike, which can fail the session; of the bounds, if the statistic has no such test."""
    p_exact: float | None = None
    method: str
    evidence: Evidence
    detectable: float | None = None
    """The smallest difference that this many pairs show with 80 % power, given the observed differences of pairs.

    It is spread over all samples.
    """
    needed: int | None = None
    """About how many samples would decide at this estimate."""
    effects: tuple[EffectSize, ...] = ()
    """The customary one first. Differences above 0, and ratios above 1, are better."""
    detectable_falls: float | None = None
    """The smallest loss that they show if it comes as replies that fall to the worst value; None without such a value."""
    p_adjusted: float | None = None
    proof_p: float | None = None
    """Of the bounds of the difference, two-sided: it decides whether a difference is called proven."""
    proof_adjusted: float | None = None
    """`proof_p` adjusted over the bounds of the session, which are a family of their own."""
    arrangements: int | None = None
    """Arrangements of the replies that the permutation test compared; None if `p_value` is of another test."""
    is_exact: bool = False
    """Whether these were all arrangements. Otherwise they are random, by the seed of the run."""
    higher_is_better: bool = True
    note: str = ""
    ratio: Ratio | None = None
    """The ratio, if the arms are compared by one."""
    suite_error: str = ""
    """The reason why the comparison gets no verdict: no two values of the metric could exceed its margin."""
    reduced: ReducedEvidence | None = None
    """The evidence without excluded samples; None if no pair is one of them."""
    beyond_reach: BeyondReach | None = None
    """The sample that refutes the declared reach of the metric: it gets no verdict, and its bounds use the range alone."""
    suggested_reach: float | None = None
    """A reach with which these bounds would decide an open claim, if it were declared before the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion:
    """A share of samples, or a correlation over them, with its interval; None if these samples have none."""

    value: float | None
    interval: Interval | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AATest:
    """False-alarm rate of one metric's comparison, where nothing differs: scores were dealt to two arms at random."""

    metric: str
    dealt: str
    """What was dealt: "v2, 5 repeats", or "v2 and v1, swapped"."""
    samples: int
    left_out: int
    """Samples that lack a score."""
    replicates: int
    alpha: float
    seed: int
    clusters: int | None = None
    method: str = "-"
    rate: float | None = None
    """None if the comparison could not be made at all; `note` has the reason."""
    interval: Interval | None = None
    holds: bool | None = None
    note: str = ""
