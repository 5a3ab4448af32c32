"""What a sequence of intervals is, and how two one-sided rules for values in [0, 1] make one for any bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import (
    ROUNDING,
    Alternative,
    Array,
    Range,
    check_share,
    finite,
    is_finite_range,
)
from pytest_crucible.stats.tails import tail_share

LowerEnds = Callable[[Array, float], Array]
"""From values in [0, 1] and an error rate to the lower end after each value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConfidenceSequence:
    """One interval after each value. All of them hold at once with probability 1 - alpha, so every look is free.

    `lower[n - 1]` and `upper[n - 1]` are the interval after n values. A one-sided sequence has the end of the range,
    or infinity, on its other side. Where `lower` is above `upper` no mean is left; see `empty_from`.
    """

    lower: Array
    upper: Array
    estimate: Array
    """The running mean. Betting weighs values by their bets, so that a trend in the values may carry it out."""
    alpha: float
    method: str

    @property
    def n(self) -> int:
        """How many values there are."""
        return int(self.lower.size)

    @property
    def empty_from(self) -> int | None:
        """First n after which every mean is excluded, None if never.

        One constant mean within the bounds leaves the sequence empty with probability at most alpha. Seeing it empty
        says that the mean drifted in the order of arrival, or that the values are not independent.
        """
        return _first(self.lower > self.upper)

    def stopped_at(self, value: float = 0.0) -> int | None:
        """First n after which this value is excluded, None if it never is.

        >>> from pytest_crucible.stats.sequential.betting import betting_sequence
        >>> betting_sequence([1.0] * 20).stopped_at(0.5)
        10
        """
        return _first((value < self.lower) | (value > self.upper))

    def interval(self, n: int | None = None) -> Interval | None:
        """The interval after n values, by default all of them. None when no mean is left."""
        at = self.n if n is None else n
        if not 1 <= at <= self.n:
            raise ValueError(f"there are intervals after 1 to {self.n} values, none after {n}")
        low, high = float(self.lower[at - 1]), float(self.upper[at - 1])
        return Interval(low=low, high=high, level=1 - self.alpha, method=self.method) if low <= high else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        interval = self.interval()
        end = f"no mean is left from n={self.empty_from} on"
        if interval is not None:
            end = with_interval(float(self.estimate[-1]), interval)
        return (
            f"{self.method}: {end} after {counted(self.n, 'value')}, holds at every n with {100 * (1 - self.alpha):g} %"
        )


def both_ends(
    rule: LowerEnds,
    values: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    alternative: Alternative,
    intersect: bool,
    method: str,
) -> ConfidenceSequence:
    """The sequence of a rule for lower ends; the upper end is the lower end of the mirrored values.

    Two-sided sequences give alpha / 2 to each side. Ends are cut to the bounds.
    """
    unit = unit_values(values, bounds)
    check_share(alpha, "alpha")
    tail = tail_share(alpha, alternative)
    lower, upper = np.zeros(unit.size), np.ones(unit.size)
    if alternative != "less":
        lower = np.clip(rule(unit, tail), 0.0, 1.0)
    if alternative != "greater":
        upper = 1 - np.clip(rule(1 - unit, tail), 0.0, 1.0)
    if intersect:
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    low, width = bounds[0], bounds[1] - bounds[0]
    return ConfidenceSequence(
        lower=low + width * lower,
        upper=low + width * upper,
        estimate=low + width * running_mean(unit),
        alpha=alpha,
        method=method,
    )


def unit_values(values: npt.ArrayLike, bounds: Range) -> Array:
    """The values moved to [0, 1]. Raises ValueError, with their count, for values outside the bounds."""
    array = finite(values)
    if not array.size:
        raise NotEnoughData("0 values: a sequence starts with the first")
    if not is_finite_range(bounds):
        raise ValueError(f"betting and Bernstein need finite bounds of the values, not {bounds!r}")
    low, high = bounds
    slack = ROUNDING * max(abs(low), abs(high))
    outside = int(((array < low - slack) | (array > high + slack)).sum())
    if outside:
        raise ValueError(f"{outside} of {array.size} values lie outside the bounds {bounds!r}")
    return np.clip((array - low) / (high - low), 0.0, 1.0)


def unit_mean(mean: float, bounds: Range) -> float:
    """A hypothetical mean moved to [0, 1]. Raises ValueError outside the bounds."""
    low, high = bounds
    if not low <= mean <= high:
        raise ValueError(f"a mean of {mean!r} is impossible within the bounds {bounds!r}")
    return (mean - low) / (high - low)


def running_mean(values: Array) -> Array:
    """The mean after each value."""
    return np.cumsum(values) / np.arange(1, values.size + 1)


def _first(reached: npt.NDArray[np.bool_]) -> int | None:
    return int(reached.argmax()) + 1 if reached.any() else None
