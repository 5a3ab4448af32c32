"""Confidence sequences for means of values in [0, 1], by betting; bounds for a fixed n are in `paced_bets`.

They assume only the bounds and one common mean given the past: no normality, no large n. Bets are fair, so that large wealth is
evidence against a mean; it is refuted once betting against it has multiplied the stake by 1 / alpha. Against the mean m the stake
before value i is min(b_i, c / m), and the wealth is the product of 1 + stake * (x_i - m). It cannot rise with m, so the means not
yet refuted form an interval exactly. Waudby-Smith & Ramdas 2024 (JRSS B 86:1), section 4.

A value may be the mean of a group. The mean over all members is m where E[s_i (x_i - m)] = 0 for groups of s_i members, so a
group's gain is multiplied by its weight, s_i over the largest size that there can be: the loss of a value stays below the stake.
A stake depends on earlier groups alone, and not on the size of the group that comes, which may go with its mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Array,
    Range,
    Side,
    check_share,
    check_tail,
    difference,
    finite,
    is_finite_range,
    paired_arrays,
)
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.moments import tail_share
from pytest_crucible.stats.number_format import quantity, with_interval


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
        return _first_place(self.lower > self.upper)

    def first_exclusion(self, value: float = 0.0) -> int | None:
        """Return the first n after which this value is excluded, or None.

        >>> from pytest_crucible.stats.sequential.betting import betting_sequence
        >>> betting_sequence([1.0] * 20).first_exclusion(0.5)
        10
        """
        return _first_place((value < self.lower) | (value > self.upper))

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


def _first_place(reached: npt.NDArray[np.bool_]) -> int | None:
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


# Newton's steps end below this; the remaining error is of the order of its square.
EXACT = 1e-9


def betting_sequence(
    values: npt.ArrayLike,
    *,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    largest_bet: float = LARGEST_BET,
    intersect: bool = True,
    weights: npt.ArrayLike | None = None,
) -> ConfidenceSequence:
    """Return the hedged betting sequence for the mean of bounded values in their order.

    The ends are roots, not grid points. With `intersect` a mean once refuted stays refuted, and the intervals are
    nested; without it each interval ignores the earlier ones, which is wider and slower (n = 10,000: seconds). Python:
    confseq.betting.hedged_cs and betting_cs, without their grid. Values that are means of groups have `weights`: their sizes
    over the largest that there can be, above 0 and at most 1; the sequence is then for the mean over all members. Raises
    ValueError for values outside the bounds and for such weights, NotEnoughData without values.

    >>> sequence = betting_sequence([1, 1, 0, 1, 1, 1, 1, 0, 1, 1] * 5)
    >>> print(sequence)
    betting: 0.800 [0.617, 0.936] after 50 values, holds at every n with 95 %
    """
    if not 0.0 < largest_bet < 1.0:
        raise ValueError(f"the largest bet must be a share of the wealth between 0 and 1, not {largest_bet!r}")
    sizes, unit = _check_weights(weights, np.size(values)), unit_values(values, bounds)
    check_share(alpha, "alpha")
    # Two-sided sequences give alpha / 2 to each side.
    tail = tail_share(alpha, alternative)
    lower, upper = np.zeros(unit.size), np.ones(unit.size)
    if alternative != "less":
        lower = np.clip(_lower_ends(unit, sizes, tail, largest_bet, intersect), 0.0, 1.0)
    if alternative != "greater":
        # The upper end is the lower end of the mirrored values.
        upper = 1 - np.clip(_lower_ends(1 - unit, sizes, tail, largest_bet, intersect), 0.0, 1.0)
    if intersect:
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    low, width = bounds[0], bounds[1] - bounds[0]
    return ConfidenceSequence(
        lower=low + width * lower,
        upper=low + width * upper,
        estimate=low + width * running_mean(unit, sizes),
        alpha=alpha,
        method="betting",
    )


def paired_sequence(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    largest_bet: float = LARGEST_BET,
    intersect: bool = True,
) -> ConfidenceSequence:
    """Return the betting sequence for the mean of candidate - baseline over pairs, both within `bounds`.

    Differences d within -R and R are bet on as (d + R) / (2 R). Raises ValueError for unequal lengths and for values
    outside the bounds.

    >>> paired_sequence([1.0] * 40, [1.0, 0.0] * 20).first_exclusion(0.0)
    20
    """
    candidate_values, baseline_values = paired_arrays(candidate, baseline)
    for arm in (candidate_values, baseline_values):
        unit_values(arm, bounds)
    width = bounds[1] - bounds[0]
    return betting_sequence(
        # Rounding may push a difference past the bounds by one bit.
        np.clip(difference(candidate_values, baseline_values), -width, width),
        bounds=(-width, width),
        alpha=alpha,
        alternative=alternative,
        largest_bet=largest_bet,
        intersect=intersect,
    )


def evidence_against(
    values: npt.ArrayLike,
    *,
    mean: float,
    bounds: Range,
    alpha: float,
    side: Side,
    largest_bet: float = LARGEST_BET,
    weights: npt.ArrayLike | None = None,
) -> Array:
    """Return the logarithm of the largest wealth so far, after each value, of a bettor against one mean.

    With `side="lower"` the bets are on a larger mean. The mean is refuted where this exceeds log(1 / alpha), as in
    `betting_sequence` with the one-sided alpha; exp(-wealth) is a p-value that holds at every look (Ville's inequality).
    A mean beyond the bounds on the other side has no evidence against it. Raises as `betting_sequence`.

    >>> wealth = evidence_against([1.0] * 20, mean=0.5, bounds=(0.0, 1.0), alpha=0.025, side="lower")
    >>> int((wealth > math.log(1 / 0.025)).argmax()) + 1
    10
    """
    unit = unit_values(values, bounds)
    check_tail(alpha, side)
    low, high = bounds
    share = (mean - low) / (high - low)
    if side == "upper":
        unit, share = 1 - unit, 1 - share
    if share < 0:
        return np.full(unit.size, math.inf)
    if share > 1:
        return np.zeros(unit.size)
    sizes = _check_weights(weights, unit.size)
    gains = log_gains(unit, stakes(unit, alpha, weights=sizes), share, largest_bet, 1.0 if sizes is None else sizes)
    wealth = np.cumsum(gains)
    return np.asarray(np.maximum.accumulate(np.maximum(wealth, 0.0)))


Excess = Callable[[float], tuple[float, float]]
"""From a mean to the log wealth against it less the threshold, and to the derivative of that difference."""


def _check_weights(weights: npt.ArrayLike | None, count: int) -> Array | None:
    """Return the weights as an array; None if all are 1."""
    if weights is None:
        return None
    array = finite(weights, name="weights")
    if array.size != count or (array <= 0).any() or (array > 1).any():
        raise ValueError(
            f"{array.size} weights for {count} values, between {array.min(initial=math.inf):g} and "
            f"{array.max(initial=-math.inf):g}: give each value its group's size over the largest size that there can be"
        )
    return None if (array == 1).all() else array


def _lower_ends(unit: Array, weights: Array | None, tail: float, largest_bet: float, intersect: bool) -> Array:
    """Return the lower end after each value.

    The end moves only when a value makes the wealth against it too large; only then are all values read again.
    """
    stake_sizes, threshold = stakes(unit, tail, weights=weights), math.log(1 / tail)
    sizes = np.ones(unit.size) if weights is None else weights
    ends = np.zeros(unit.size)
    low, above, slope = 0.0, -threshold, 0.0
    for last, (value, stake, size) in enumerate(zip(unit.tolist(), stake_sizes.tolist(), sizes.tolist(), strict=True)):
        limit = largest_stake(low, largest_bet)
        factor = 1 + min(stake, limit) * size * (value - low)
        above += math.log(factor)
        slope -= size * (stake if stake < limit else limit * value / low) / factor
        if above > 0 or not intersect:
            observed = slice(last + 1)
            excess = _excess(unit[observed], sizes[observed], stake_sizes[observed], threshold, largest_bet)
            low, above, slope = _next_end(excess, low, above, slope)
        ends[last] = low
    return ends


def _excess(unit: Array, sizes: Array, stake_sizes: Array, threshold: float, largest_bet: float) -> Excess:
    def excess(mean: float) -> tuple[float, float]:
        gains = float(log_gains(unit, stake_sizes, mean, largest_bet, sizes).sum())
        return gains - threshold, float(log_slopes(unit, stake_sizes, mean, largest_bet, sizes).sum())

    return excess


def _next_end(excess: Excess, mean: float, above: float, slope: float) -> tuple[float, float, float]:
    """Return the next end: above the previous one when that is refuted, else below it, at least 0."""
    if above > 0:
        return _root(excess, mean, above, slope, low=mean, high=1.0)
    at_zero, slope_at_zero = excess(0.0)
    if at_zero <= 0:
        return 0.0, at_zero, slope_at_zero
    return _root(excess, mean, above, slope, low=0.0, high=mean)


def _root(
    excess: Excess, mean: float, above: float, slope: float, *, low: float, high: float
) -> tuple[float, float, float]:
    """Return the zero of the falling excess with its value and slope: Newton steps, or halving outside the bracket."""
    while high - low > 1e-15:
        following = mean - above / slope if slope else math.inf
        if abs(following - mean) < EXACT:
            return following, 0.0, slope
        mean = following if low < following < high else (low + high) / 2
        above, slope = excess(mean)
        low, high = (mean, high) if above > 0 else (low, mean)
    return high, min(above, 0.0), slope
