"""Confidence sequences for means of bounded values, by betting; bounds for a fixed n are in `paced_bets`.

They assume only the bounds and one common mean given the past: no normality, no large n. A mean is refuted once betting
against it has multiplied the stake by 1 / alpha. Waudby-Smith & Ramdas 2024 (JRSS B 86:1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Range,
    Side,
    check_share,
    check_side,
    difference,
    finite,
    paired_arrays,
)
from pytest_crucible.stats.sequential.sequences import (
    LARGEST_BET,
    ConfidenceSequence,
    both_ends,
    check_largest_bet,
    largest_stake,
    log_gains,
    log_slopes,
    stakes,
    unit_values,
)

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
    check_largest_bet(largest_bet)
    sizes = _check_weights(weights, np.size(values))
    return both_ends(
        lambda unit, tail: _lower_ends(unit, sizes, tail, largest_bet, intersect),
        values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        intersect=intersect,
        method="betting",
        weights=sizes,
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
    check_share(alpha, "alpha")
    check_side(side)
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
            seen = slice(last + 1)
            excess = _excess(unit[seen], sizes[seen], stake_sizes[seen], threshold, largest_bet)
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
