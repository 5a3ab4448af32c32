"""Confidence sequences and guaranteed bounds for means of bounded values, by betting.

No assumption beyond the bounds and one common mean given what came before: no normality, no large n. A mean is refuted
once betting against it has multiplied the stake by 1 / alpha. Waudby-Smith & Ramdas 2024 (JRSS B 86:1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import (
    Alternative,
    Array,
    Range,
    Side,
    check_share,
    check_side,
    difference,
    paired,
)
from pytest_crucible.stats.sequential.record import ConfidenceSequence, both_ends, unit_values
from pytest_crucible.stats.sequential.wealth import (
    LARGEST_BET,
    check_largest_bet,
    largest,
    log_gains,
    log_slopes,
    stakes,
)

EXACT = 1e-9
"""Newton's steps end below this; the error left is of the order of its square."""
FIXED_BET = 0.75
"""Largest bet where n is fixed: where little varies 0.5 has half the power, and 0.9 loses more to rare disasters."""


def betting_sequence(
    values: npt.ArrayLike,
    *,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    largest_bet: float = LARGEST_BET,
    intersect: bool = True,
) -> ConfidenceSequence:
    """Hedged betting sequence for the mean of bounded values in the order of their arrival.

    The ends are roots, not grid points. With `intersect` a mean once refuted stays refuted, and sequences are nested;
    without it each interval forgets the earlier ones, which is wider and slower (n = 10,000: seconds).
    Python: confseq.betting.hedged_cs and betting_cs, without their grid. Raises ValueError for values outside bounds,
    NotEnoughData without values.

    >>> sequence = betting_sequence([1, 1, 0, 1, 1, 1, 1, 0, 1, 1] * 5)
    >>> print(sequence)
    betting: 0.800 [0.617, 0.936] after 50 values, holds at every n with 95 %
    """
    check_largest_bet(largest_bet)
    return both_ends(
        lambda unit, tail: _lower_ends(unit, tail, largest_bet, intersect),
        values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        intersect=intersect,
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
    """Betting sequence for the mean of candidate - baseline over pairs, both within `bounds`.

    Differences d within -R and R are bet on as (d + R) / (2 R). Raises ValueError for unequal lengths and for values
    outside the bounds.

    >>> paired_sequence([1.0] * 40, [1.0, 0.0] * 20).stopped_at(0.0)
    20
    """
    first, second = paired(candidate, baseline)
    for arm in (first, second):
        unit_values(arm, bounds)
    width = bounds[1] - bounds[0]
    return betting_sequence(
        np.clip(difference(first, second), -width, width),
        bounds=(-width, width),
        alpha=alpha,
        alternative=alternative,
        largest_bet=largest_bet,
        intersect=intersect,
    )


def betting_bound(
    values: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    largest_bet: float = FIXED_BET,
    rng: int | np.random.Generator | None = None,
) -> float:
    """One-sided bound for the mean after a number of values that was fixed beforehand; errs with at most alpha, always.

    The stakes are those for this n, which makes it tighter than the end of a sequence, and no excuse for looking early.
    The order is that of the values and must not depend on them: the order of a dataset is good, a sorted one voids the
    guarantee. Give `rng` to shuffle the positions by a seed. For differences the bounds are those of a difference.

    >>> round(betting_bound([1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 6)
    0.877179
    """
    unit = unit_values(values, bounds)
    check_share(alpha, "alpha")
    check_side(side)
    check_largest_bet(largest_bet)
    if rng is not None:
        unit = np.random.default_rng(rng).permutation(unit)
    share = _fixed_end(unit if side == "lower" else 1 - unit, alpha, largest_bet)
    low, high = bounds
    return low + (high - low) * share if side == "lower" else high - (high - low) * share


Excess = Callable[[float], tuple[float, float]]
"""From a mean to what the log wealth against it has above the threshold, and the derivative of that."""


def _fixed_end(unit: Array, tail: float, largest_bet: float) -> float:
    staked, threshold = stakes(unit, tail, planned=unit.size), math.log(1 / tail)

    def excess(mean: float) -> tuple[float, float]:
        wealth = np.cumsum(log_gains(unit, staked, mean, largest_bet))
        best = int(wealth.argmax())
        until = slice(best + 1)
        return float(wealth[best]) - threshold, float(log_slopes(unit[until], staked[until], mean, largest_bet).sum())

    above, slope = excess(0.0)
    return _root(excess, 0.0, above, slope, low=0.0, high=1.0)[0] if above > 0 else 0.0


def _lower_ends(unit: Array, tail: float, largest_bet: float, intersect: bool) -> Array:
    """The end moves only when a value makes the wealth against it too large; only then are all values read again."""
    staked, threshold = stakes(unit, tail), math.log(1 / tail)
    ends = np.zeros(unit.size)
    low, above, slope = 0.0, -threshold, 0.0
    for last, (value, stake) in enumerate(zip(unit.tolist(), staked.tolist(), strict=True)):
        limit = largest(low, largest_bet)
        factor = 1 + min(stake, limit) * (value - low)
        above += math.log(factor)
        slope -= (stake if stake < limit else limit * value / low) / factor
        if above > 0 or not intersect:
            excess = _excess(unit[: last + 1], staked[: last + 1], threshold, largest_bet)
            low, above, slope = _moved(excess, low, above, slope)
        ends[last] = low
    return ends


def _excess(unit: Array, staked: Array, threshold: float, largest_bet: float) -> Excess:
    def excess(mean: float) -> tuple[float, float]:
        gains = float(log_gains(unit, staked, mean, largest_bet).sum())
        return gains - threshold, float(log_slopes(unit, staked, mean, largest_bet).sum())

    return excess


def _moved(excess: Excess, mean: float, above: float, slope: float) -> tuple[float, float, float]:
    """The end from where the last one was: upwards when that is refuted, else downwards, at most to 0."""
    if above > 0:
        return _root(excess, mean, above, slope, low=mean, high=1.0)
    at_zero, slope_at_zero = excess(0.0)
    if at_zero <= 0:
        return 0.0, at_zero, slope_at_zero
    return _root(excess, mean, above, slope, low=0.0, high=mean)


def _root(
    excess: Excess, mean: float, above: float, slope: float, *, low: float, high: float
) -> tuple[float, float, float]:
    """Where the falling excess is 0, with its value and slope there: Newton's steps, halving where they leave."""
    while high - low > 1e-15:
        newer = mean - above / slope if slope else math.inf
        if abs(newer - mean) < EXACT:
            return newer, 0.0, slope
        mean = newer if low < newer < high else (low + high) / 2
        above, slope = excess(mean)
        low, high = (mean, high) if above > 0 else (low, mean)
    return high, min(above, 0.0), slope
