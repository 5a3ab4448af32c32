"""Results: effect sizes, bounds, tests, estimates and comparisons, with their text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Alternative
from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, p_equals, ratio, ratio_with_interval, with_interval


def log_ratio(value: float | None) -> float | None:
    """Return the logarithm; -inf at 0."""
    if value is None:
        return None
    return math.log(value) if value > 0 else -math.inf


def interval_ends(interval: Interval, show: Callable[[float, Interval], str] = number) -> str:
    low, high = (show(end, interval) for end in (interval.low, interval.high))
    if math.isinf(interval.low):
        return f"up to {high}"
    return f"from {low} upwards" if math.isinf(interval.high) else f"from {low} to {high}"


def in_clusters(clusters: int | None) -> str:
    return "" if clusters is None else f" in {clusters:,} cluster{'s' * (clusters != 1)}"


Status = Literal["ok", "degenerate", "insufficient_data", "insufficient_clusters"]
"""degenerate: nothing varies, or the arms are separated, so that only counting arguments apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The size of an effect under its full name, such as "hedges g". `value` is None if it is not defined."""

    name: str
    value: float | None
    interval: Interval | None = None
    note: str = ""

    def __str__(self) -> str:
        show = ratio_with_interval if "ratio" in self.name else with_interval
        return f"{self.name} {show(self.value, self.interval)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alikeness:
    """The result of a permutation test that two arms are alike."""

    method: str
    p_value: float
    smallest: float
    """The smallest p-value that any scores of as many units could have."""
    arrangements: int
    """How many arrangements were compared with the observed one, itself included."""
    exact: bool
    """True if these are all of them; otherwise they are random, by `seed`."""
    seed: int | None
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """The result of a significance test. Statistic and p-value are None if the data do not define them."""

    method: str
    """The test by name, with its variant: "wilcoxon signed-rank, exact, pratt"."""
    statistic: float | None
    p_value: float | None
    p_exact: float | None = None
    """A p-value of an exact test of the same hypothesis, if there is one in addition to the method's own."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds in `interval`, where `p_value` is of another question."""
    alikeness: Alikeness | None = None
    """The permutation test that `p_value` is of; None for other tests."""
    dof: tuple[float, ...] = ()
    """Degrees of freedom: none, one, or numerator and denominator."""
    estimate: float | None = None
    """The estimate that the interval belongs to; first arm minus second arm where it is a difference."""
    interval: Interval | None = None
    se: float | None = None
    n: tuple[int, ...] = ()
    """Observations in each arm; for pairs one number."""
    effects: tuple[Effect, ...] = ()
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        """Return `estimate [interval], statistic 2.1, dof 39, p = 0.042, n=40 (paired t)`, without missing parts."""
        parts = [with_interval(self.estimate, self.interval)] if self.estimate is not None else []
        if self.statistic is not None:
            parts.append(f"statistic {number(self.statistic)}")
        parts += [f"dof {', '.join(f'{dof:.4g}' for dof in self.dof)}"] if self.dof else []
        # A missing part is left out rather than shown as "nan", which reads like a result.
        parts += [] if self.p_value is None else [f"{p_equals(self.p_value)}"]
        parts += [f"n={' + '.join(f'{n:,}' for n in self.n)}"] if self.n else []
        return f"{', '.join(parts) or self.note} ({self.method})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound for a mean; None when the data do not define one, and `note` has the reason."""

    value: float | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two one-sided bounds of a difference, each of which errs in at most a share alpha of experiments."""

    low: float | None
    high: float | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The mean of one arm (of 0/1 values: a rate) with its two-sided interval, from `stats.estimate`."""

    estimate: float | None
    """None when there are no values."""
    interval: Interval | None
    n: int
    clusters: int | None
    deviation: float | None
    """Standard deviation; of clustered values sqrt(n) * se, so that power sees the design effect."""
    kind: Kind
    method: str
    alpha: float
    status: Status = "ok"
    note: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def ci_low(self) -> float | None:
        return None if self.interval is None else self.interval.low

    @property
    def ci_high(self) -> float | None:
        return None if self.interval is None else self.interval.high

    @property
    def sentence(self) -> str:
        """The result in plain English."""
        # The mean of 0/1 values is called a rate.
        what = "rate" if self.kind == "binary" else "mean"
        if self.estimate is None:
            return f"There are no values, so the {what} is unknown."
        count = f"{self.n:,} sample{'s' * (self.n != 1)}{in_clusters(self.clusters)}"
        sentence = f"The {what} of {count} is {number(self.estimate, self.interval)}"
        if self.interval is None:
            return f"{sentence}; no interval can be given ({self.note})."
        return f"{sentence}, with a {self.interval.level * 100:g} % interval {interval_ends(self.interval)}."

    def __str__(self) -> str:
        clusters = "" if self.clusters is None else f" clusters={self.clusters:,}"
        return f"{with_interval(self.estimate, self.interval)} n={self.n:,}{clusters} ({self.method})"


Estimand = Literal["difference", "ratio"]
"""Difference of means (of 0/1 values: of rates), or ratio of geometric means."""
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The candidate compared with the baseline, from `stats.compare`.

    Two questions have two tests. `p_value` asks whether the arms are alike: could the two replies to a sample be exchanged?
    `interval` and `proof_p` are about the mean difference, by bounds that are valid for every distribution within the range of
    the scores: proof_p is below alpha exactly when the interval excludes "no difference" (0; for a ratio 1). For pairs of yes
    and no both are one procedure. Scores without bounds have no valid bound of their mean: their interval is approximate.
    """

    estimand: Estimand
    estimate: float | None
    """Candidate minus baseline, or candidate over baseline."""
    interval: Interval | None
    p_value: float | None
    p_exact: float | None
    """McNemar's exact p for 0/1 pairs, the sign-flip p when all differences are equal; otherwise None."""
    effect: Effect | None
    """The effect size that is customary for the kind."""
    effects: tuple[Effect, ...]
    """Further effect sizes."""
    n_candidate: int
    n_baseline: int
    paired: bool
    clusters: int | None
    candidate: float | None
    """Mean (of a ratio: geometric mean) of the candidate."""
    baseline: float | None
    deviation: float | None
    """Standard deviation of paired differences; of clustered ones sqrt(n) * se, so that power sees the design effect."""
    kind: Kind
    method: str
    alternative: Alternative
    alpha: float
    direction: Direction = "higher"
    dof: float | None = None
    """Degrees of freedom of the standard error; None if the method has none."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds in `interval`; None if they are approximate."""
    alikeness: Alikeness | None = None
    """The permutation test of `p_value`, with its arrangements and seed; None if it is of another test."""
    margin: float | None = None
    bounds: Bounds | None = None
    """The one-sided bounds that decide the margin; None without a margin."""
    status: Status = "ok"
    note: str = ""
    assumptions: tuple[str, ...] = ()
    """Assumptions of the method, with what these data show about them. They choose nothing."""

    @property
    def n(self) -> int:
        """Number of pairs, or of observations in both arms."""
        return self.n_candidate if self.paired else self.n_candidate + self.n_baseline

    @property
    def ci_low(self) -> float | None:
        return None if self.interval is None else self.interval.low

    @property
    def ci_high(self) -> float | None:
        return None if self.interval is None else self.interval.high

    @property
    def no_difference(self) -> float:
        """The value of the estimand when the arms do not differ."""
        return 1.0 if self.estimand == "ratio" else 0.0

    @property
    def significant(self) -> bool:
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def proven(self) -> bool:
        """Return whether the bounds show that the difference has its sign; `significant` says that the arms are not alike."""
        return self.proof_p is not None and self.proof_p <= self.alpha

    @property
    def non_inferior(self) -> bool | None:
        """Not worse by the margin: True, False, or None if the bounds do not decide or without a margin."""
        better, worse = self._bounds_towards_better()
        limit = self._limits()[0]
        if limit is None:
            return None
        # One bound is enough to decide; the other may be unknown.
        if worse is not None and worse > limit:
            return True
        return False if better is not None and better < limit else None

    @property
    def equivalent(self) -> bool | None:
        """Within the margin on both sides: True, False, or None if the bounds do not decide or without a margin."""
        better, worse = self._bounds_towards_better()
        low, high = self._limits()
        if low is None or high is None or better is None or worse is None:
            return None
        if worse > low and better < high:
            return True
        return False if better < low or worse > high else None

    def _bounds_towards_better(self) -> tuple[float | None, float | None]:
        """Return (upper, lower) bound of the candidate's improvement; ratios on the log scale, where 0 means equal."""
        if self.bounds is None:
            return None, None
        # On the log scale a ratio of 1.1 and its inverse are equally far from no difference.
        ends = [log_ratio(end) if self.estimand == "ratio" else end for end in (self.bounds.high, self.bounds.low)]
        if self.direction == "lower":
            # When lower is better, the improvement is the negative difference, and its bounds change places.
            ends = [None if end is None else -end for end in reversed(ends)]
        return ends[0], ends[1]

    def _limits(self) -> tuple[float | None, float | None]:
        if self.margin is None:
            return None, None
        # A margin of 0.1 allows a ratio of 1.1, and its inverse on the other side.
        margin = log_ratio(1 + self.margin) if self.estimand == "ratio" else self.margin
        return (None, None) if margin is None else (-margin, margin)

    @property
    def sentence(self) -> str:
        """The result in plain English: estimate, interval and n, then the conclusion about difference and margin."""
        if self.estimate is None:
            return f"The arms cannot be compared: {self.note or 'there are no values'}."
        sentence = f"On {_count(self)} the candidate's {_mean(self)} is {_by_how_much(self)}"
        p = "" if self.p_value is None else f", {p_equals(self.p_value)}"
        if self.interval is None:
            sentence += f"; no interval can be given ({self.note}){p}"
        else:
            ends = interval_ends(self.interval, ratio if self.estimand == "ratio" else number)
            sentence += f" ({self.interval.level * 100:g} % interval {ends}{p})"
        conclusion = "" if self.p_value is None else f": {_conclusion(self)}"
        claim = "" if self.margin is None else f" {_claim(self, self.margin)} ({self.direction} is better)."
        return f"{sentence}{conclusion}.{claim}"

    def __str__(self) -> str:
        p = "" if self.p_value is None else f", {p_equals(self.p_value)}"
        size = f", {self.effect}" if self.effect is not None and self.effect.value is not None else ""
        if self.estimand == "difference":
            answer = f"candidate - baseline: {with_interval(self.estimate, self.interval, sign=True)}"
        else:
            answer = f"candidate / baseline: {ratio_with_interval(self.estimate, self.interval)}"
        return f"{answer}, {_count(self)}{p}{size} ({self.method})"


def _mean(result: ComparisonResult) -> str:
    if result.estimand == "ratio":
        return "geometric mean"
    return "rate" if result.kind == "binary" else "mean"


def _by_how_much(result: ComparisonResult) -> str:
    assert result.estimate is not None
    if result.estimand == "ratio":
        return f"{ratio(result.estimate, result.interval)} times the baseline's"
    if not result.estimate:
        return "the same as the baseline's"
    order = "higher" if result.estimate > 0 else "lower"
    return f"{number(abs(result.estimate), result.interval)} {order} than the baseline's"


def _conclusion(result: ComparisonResult) -> str:
    """Return the conclusion at alpha. It is never "no difference", only that none was shown."""
    assert result.estimate is not None
    # The absence of significance is never worded as equality.
    if not result.significant:
        if result.alternative == "two-sided":
            return "which of the two is higher is not shown"
        return f"that the candidate is {'higher' if result.alternative == 'greater' else 'lower'} is not shown"
    order = "higher" if result.estimate > result.no_difference else "lower"
    level = f"at an error rate of {result.alpha * 100:g} %"
    if result.alikeness is not None and not result.proven:
        return f"the arms differ, {level}; that the candidate's mean is {order} is not shown"
    return f"the candidate is {order}, {level}"


def _claim(result: ComparisonResult, margin: float) -> str:
    """Return what the bounds decide about a margin."""
    if result.estimand == "difference":
        return {
            True: f"It is not worse by {margin:g} or more",
            False: f"It is worse by more than {margin:g}",
            None: f"Whether it is worse by {margin:g} is undecided",
        }[result.non_inferior]
    # The limit is a multiple of the baseline: 10 % more is not the inverse of 10 % less.
    limit = 1 + margin if result.direction == "lower" else 1 / (1 + margin)
    better, worse = ("below", "above") if result.direction == "lower" else ("above", "below")
    return {
        True: f"It is {better} {limit:.4g} times the baseline's",
        False: f"It is {worse} {limit:.4g} times the baseline's",
        None: f"Whether it is {worse} {limit:.4g} times the baseline's is undecided",
    }[result.non_inferior]


def _count(result: ComparisonResult) -> str:
    if result.paired:
        return f"{result.n_candidate:,} pair{'s' * (result.n_candidate != 1)}{in_clusters(result.clusters)}"
    return f"{result.n_candidate:,} + {result.n_baseline:,} samples{in_clusters(result.clusters)}"
