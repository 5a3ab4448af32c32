"""Confidence sequences of values in [0, 1], and the wealth of a bettor against a mean, from which they are made.

The wealth of a bettor against a mean: bets are fair, so large wealth is evidence that the mean is larger.
Values lie in [0, 1]. Against the mean m the stake before value i is min(b_i, c / m), and the wealth is the product of 1
+ stake * (x_i - m). It cannot rise with m, so the means not yet refuted form an interval exactly. Waudby-Smith & Ramdas
2024 (JRSS B 86:1), section 4.

A value may be the mean of a group. The mean over all members is m where E[s_i (x_i - m)] = 0 for groups of s_i members, so a
group's gain is multiplied by its weight, s_i over the largest size that there can be: the loss of a value stays below the stake.
A stake depends on earlier groups alone, and not on the size of the group that comes, which may go with its mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Array,
    Range,
    check_share,
    finite,
    is_finite_range,
)
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.moments import tail_share
from pytest_crucible.stats.number_format import quantity, with_interval

LowerEnds = Callable[[Array, float], Array]
"""From values in [0, 1] and an error rate to the lower end after each value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConfidenceSequence:
    """Intervals after each value, all of which hold at once with probability 1 - alpha.

    So results may be looked at after every value. `lower[n - 1]` and `upper[n - 1]` are the interval after n values. A
    one-sided sequence has the end of the range, or infinity, on its other side. Where `lower` is above `upper` every
    mean is excluded; see `empty_from`.
    """

    lower: Array
    upper: Array
    estimate: Array
    """The running mean. Betting weights values by their bets, so a trend may carry the mean out of the interval."""
    alpha: float
    method: str

    @property
    def n(self) -> int:
        """The number of values."""
        return int(self.lower.size)

    @property
    def empty_from(self) -> int | None:
        """The first n after which every mean is excluded, or None.

        With one constant mean within the bounds this happens with probability at most alpha. An empty sequence means
        that the mean drifted in the order of arrival, or that the values are not independent.
        """
        return _first(self.lower > self.upper)

    def first_exclusion(self, value: float = 0.0) -> int | None:
        """Return the first n after which this value is excluded, or None.

        >>> from pytest_crucible.stats.sequential.betting import betting_sequence
        >>> betting_sequence([1.0] * 20).first_exclusion(0.5)
        10
        """
        return _first((value < self.lower) | (value > self.upper))

    def interval(self, n: int | None = None) -> Interval | None:
        """Return the interval after n values, by default all; None when every mean is excluded."""
        count = self.n if n is None else n
        if not 1 <= count <= self.n:
            raise ValueError(f"the sequence has intervals after 1 to {self.n} values, not after {n}")
        low, high = float(self.lower[count - 1]), float(self.upper[count - 1])
        return Interval(low=low, high=high, level=1 - self.alpha, method=self.method) if low <= high else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        interval = self.interval()
        summary = f"every mean is excluded from n={self.empty_from} on"
        if interval is not None:
            summary = with_interval(float(self.estimate[-1]), interval)
        return f"{self.method}: {summary} after {quantity(self.n, 'value')}, holds at every n with {100 * (1 - self.alpha):g} %"


def both_ends(
    rule: LowerEnds,
    values: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    alternative: Alternative,
    intersect: bool,
    method: str,
    weights: Array | None = None,
) -> ConfidenceSequence:
    """Return the sequence of a rule for lower ends; the upper end is the lower end of the mirrored values.

    Two-sided sequences give alpha / 2 to each side. Ends are cut to the bounds. `weights` are those of the estimate.
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
        estimate=low + width * running_mean(unit, weights),
        alpha=alpha,
        method=method,
    )


def unit_values(values: npt.ArrayLike, bounds: Range) -> Array:
    """Return the values scaled from the bounds to [0, 1].

    Raises ValueError, with their count, for values outside the bounds.
    """
    array = finite(values)
    if not array.size:
        raise NotEnoughData("0 values: a confidence sequence needs at least 1")
    if not is_finite_range(bounds):
        raise ValueError(f"betting and Bernstein sequences need finite bounds, not {bounds!r}")
    low, high = bounds
    # Scores computed as means may miss a bound by rounding.
    slack = ROUNDING * max(abs(low), abs(high))
    outside = int(((array < low - slack) | (array > high + slack)).sum())
    if outside:
        raise ValueError(f"{outside} of {array.size} values lie outside the bounds {bounds!r}: correct either")
    return np.clip((array - low) / (high - low), 0.0, 1.0)


def running_mean(values: Array, weights: Array | None = None) -> Array:
    """Return the mean after each value, weighted where weights are given."""
    if weights is None:
        return np.cumsum(values) / np.arange(1, values.size + 1)
    return np.cumsum(weights * values) / np.cumsum(weights)


def _first(reached: npt.NDArray[np.bool_]) -> int | None:
    return int(reached.argmax()) + 1 if reached.any() else None


# Share of the wealth that may be lost on one value; the paper suggests 1/2 or 3/4.
LARGEST_BET = 0.5


def stakes(unit: Array, tail: float, *, weights: Array | None = None) -> Array:
    """Return the stake before each value: sqrt(2 log(1 / tail) / (i log(1 + i) * variance)).

    Each stake depends on the earlier values only. The variance starts at 1/4 and the mean at 1/2, each counted as one
    observation. Equation 26 of the paper. With `weights` it is the variance of weighted distances, each in units of the
    average weight so far.
    """
    count = np.arange(1, unit.size + 1)
    typical = np.ones(unit.size) if weights is None else running_mean(weights)
    relative = np.ones(unit.size) if weights is None else weights / typical
    mean = (0.5 + np.cumsum(relative * unit)) / (np.cumsum(relative) + 1)
    variance = (0.25 + np.cumsum((relative * (unit - mean)) ** 2)) / (count + 1)
    before = np.concatenate(([0.25], variance[:-1]))
    # Nothing is known of the first group's size: it may be the largest.
    unit_of_weight = np.concatenate(([1.0], typical[:-1]))
    return np.asarray(np.sqrt(2 * math.log(1 / tail) / (count * np.log1p(count) * before)) / unit_of_weight)


def log_gains(
    unit: Array, stake_sizes: Array, mean: float, largest_bet: float = LARGEST_BET, weights: Array | float = 1.0
) -> Array:
    """Return the log gain of each value for a bettor on means above this one."""
    return np.asarray(np.log1p(np.minimum(stake_sizes, largest_stake(mean, largest_bet)) * weights * (unit - mean)))


def log_slopes(
    unit: Array, stake_sizes: Array, mean: float, largest_bet: float = LARGEST_BET, weights: Array | float = 1.0
) -> Array:
    """Return the derivatives of `log_gains` by the mean; they are never positive."""
    limit = largest_stake(mean, largest_bet)
    used = np.minimum(stake_sizes, limit) * weights
    pull = np.where(stake_sizes < limit, 1.0, unit / mean) if mean > 0 else np.ones(unit.size)
    return np.asarray(-used * pull / (1 + used * (unit - mean)))


def largest_stake(mean: float, largest_bet: float) -> float:
    """Return the largest stake against this mean."""
    return largest_bet / mean if mean > 0 else math.inf


def check_largest_bet(largest_bet: float) -> None:
    """Raise ValueError unless some wealth is left after the worst value."""
    if not 0.0 < largest_bet < 1.0:
        raise ValueError(f"the largest bet must be a share of the wealth between 0 and 1, not {largest_bet!r}")
