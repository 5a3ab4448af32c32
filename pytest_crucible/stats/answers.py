"""What `choose` answers: numbers with the name of the method that gave them, and a note where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A mean (of 0/1 values: a rate) with its two-sided interval."""

    value: float | None
    """None when there are no values."""
    interval: Interval | None
    n: int
    clusters: int | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound for a mean; None when these data carry none, and `note` says why."""

    value: float | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Candidate minus baseline over pairs. The p-value is below 1 - level exactly when the interval excludes 0."""

    difference: float | None
    interval: Interval | None
    p_value: float | None
    p_exact: float | None
    """McNemar's exact p for 0/1 values, the sign-flip p when all differences are equal; otherwise None."""
    pairs: int
    clusters: int | None
    deviation: float | None
    """Standard deviation of the differences; of clustered ones sqrt(n) * se, so that power sees the design effect."""
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two one-sided bounds of a difference, each of which errs in at most a share alpha of experiments."""

    low: float | None
    high: float | None
    method: str
    note: str = ""


Status = Literal["ok", "degenerate", "insufficient_data", "insufficient_clusters"]
"""degenerate: nothing varies, or everything is separated, so that only what follows from counting is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The size of an effect under its full name, such as "hedges g". `value` is None where it is not defined."""

    name: str
    value: float | None
    interval: Interval | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """What a significance test found. Statistic and p-value are None where the data do not define them."""

    method: str
    """The test by name, with its variant: "wilcoxon signed-rank, exact, pratt"."""
    statistic: float | None
    p_value: float | None
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
