"""What the statistics answer: numbers with the name of the method that gave them, and a note where there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records import Interval
from pytest_crucible.stats import wording
from pytest_crucible.stats.declared import Kind
from pytest_crucible.stats.observations import Alternative

Status = Literal["ok", "degenerate", "insufficient_data", "insufficient_clusters"]
"""degenerate: nothing varies, or everything is separated, so that only what follows from counting is answered."""
Estimand = Literal["difference", "ratio"]
"""Difference of means (of 0/1 values: of rates), or ratio of geometric means."""
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The size of an effect under its full name, such as "hedges g". `value` is None where it is not defined."""

    name: str
    value: float | None
    interval: Interval | None = None
    note: str = ""

    def __str__(self) -> str:
        return wording.line_of_effect(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """What a significance test found. Statistic and p-value are None where the data do not define them."""

    method: str
    """The test by name, with its variant: "wilcoxon signed-rank, exact, pratt"."""
    statistic: float | None
    p_value: float | None
    p_exact: float | None = None
    """A p-value of an exact test of the same question, where there is one beside the method's own."""
    dof: tuple[float, ...] = ()
    """Degrees of freedom: none, one, or numerator and denominator."""
    estimate: float | None = None
    """What the interval is about; first arm minus second arm where it is a difference."""
    interval: Interval | None = None
    se: float | None = None
    n: tuple[int, ...] = ()
    """Observations of each arm; of pairs once."""
    effects: tuple[Effect, ...] = ()
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        return wording.line_of_significance(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound for a mean; None when these data carry none, and `note` says why."""

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
class Estimate:
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
        """What was found, in plain English."""
        return wording.of_estimate(self)

    def __str__(self) -> str:
        return wording.line_of_estimate(self)

    def _repr_html_(self) -> str:
        return wording.table(str(self), wording.rows_of_estimate(self), self.sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Treatment against control, from `stats.compare`.

    Interval and p-value come from one method: p is below alpha exactly when the interval excludes "no difference" (0, of
    a ratio 1).
    """

    estimand: Estimand
    estimate: float | None
    """Treatment minus control, or treatment over control."""
    interval: Interval | None
    p_value: float | None
    p_exact: float | None
    """McNemar's exact p for 0/1 pairs, the sign-flip p when all differences are equal; otherwise None."""
    effect: Effect | None
    """The size of the effect that is customary for the kind."""
    effects: tuple[Effect, ...]
    """Further sizes of effect."""
    n_treatment: int
    n_control: int
    paired: bool
    clusters: int | None
    treatment: float | None
    """Mean (of a ratio: geometric mean) of the treatment."""
    control: float | None
    deviation: float | None
    """Standard deviation of paired differences; of clustered ones sqrt(n) * se, so that power sees the design effect."""
    kind: Kind
    method: str
    alternative: Alternative
    alpha: float
    direction: Direction = "higher"
    margin: float | None = None
    bounds: Bounds | None = None
    """One-sided bounds that the margin is judged by; None without a margin."""
    status: Status = "ok"
    note: str = ""
    assumptions: tuple[str, ...] = ()
    """What the method takes for granted, with what these data show about it. Nothing was decided by it."""
    sensitivity: tuple[Significance, ...] = ()
    """The same question put to other methods, on request. For reading: the answer is the record's own."""
    seed: int | None = None
    """What random parts of `sensitivity` were drawn with."""

    @property
    def n(self) -> int:
        """Pairs, or the observations of both arms."""
        return self.n_treatment if self.paired else self.n_treatment + self.n_control

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
    def non_inferior(self) -> bool | None:
        """Not worse than the margin allows: True, False, or None where the bounds do not decide or there is no margin."""
        better, worse = self._bounds_towards_better()
        limit = self._limits()[0]
        if limit is None:
            return None
        if worse is not None and worse > limit:
            return True
        return False if better is not None and better < limit else None

    @property
    def equivalent(self) -> bool | None:
        """Inside the margin on both sides: True, False, or None where the bounds do not decide or there is no margin."""
        better, worse = self._bounds_towards_better()
        low, high = self._limits()
        if low is None or high is None or better is None or worse is None:
            return None
        if worse > low and better < high:
            return True
        return False if better < low or worse > high else None

    def _bounds_towards_better(self) -> tuple[float | None, float | None]:
        """(upper, lower) bound of how much better the treatment is; ratios on the log scale, whose 0 is no difference."""
        if self.bounds is None:
            return None, None
        ends = [
            wording.log_ratio(end) if self.estimand == "ratio" else end for end in (self.bounds.high, self.bounds.low)
        ]
        if self.direction == "lower":
            ends = [None if end is None else -end for end in reversed(ends)]
        return ends[0], ends[1]

    def _limits(self) -> tuple[float | None, float | None]:
        if self.margin is None:
            return None, None
        margin = wording.log_ratio(1 + self.margin) if self.estimand == "ratio" else self.margin
        return (None, None) if margin is None else (-margin, margin)

    @property
    def sentence(self) -> str:
        """What was found, in plain English; true whichever arm is ahead."""
        return wording.of_comparison(self)

    def __str__(self) -> str:
        return wording.line_of_comparison(self)

    def _repr_html_(self) -> str:
        return wording.table(str(self), wording.rows_of_comparison(self), self.sentence)
