"""Tails of the largest of several t statistics that share one estimate of the standard deviation.

Given the standard deviation, the statistics are normal and the tail is a short sum. It is then averaged over the
distribution of the estimate, sqrt(chi-squared / dof). Both integrals are sums over equal steps, which are accurate to
about 1e-14 for such smooth functions, also in the far tail, because the tail itself is summed, not 1 - cdf.
scipy.stats.studentized_range is slower and wrong by 1e-5 at p = 5e-10 (docs/decisions/0008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr

from pytest_crucible.stats.arrays import Array

# Standard deviations around the middle of the range: steps of 1/4, and a mass of 1e-19 beyond 9.
_SPREAD = np.linspace(-9.0, 9.0, 73)
_STEP = float(_SPREAD[1] - _SPREAD[0])
NEGLIGIBLE = 40.0
"""Minus the natural logarithm of the mass that is cut off: e^-40 is 4e-18."""


def studentized_range_tail(q: float, arms: int, dof: float) -> float:
    """Return P(range of `arms` means > q standard errors); R: ptukey(q, arms, dof, lower.tail=FALSE).

    This is the p-value of Tukey's test. `dof` may be infinite or fractional.
    """
    if q <= 0:
        return 1.0
    return min(1.0, average_over_scale(lambda scale: _range_tail(q * scale, arms), q, dof))


@lru_cache(maxsize=256)
def studentized_range_critical(alpha: float, arms: int, dof: float) -> float:
    """Return the range that a share alpha of experiments exceeds; R: qtukey(alpha, arms, dof, lower.tail=FALSE)."""
    return critical_value(lambda q: studentized_range_tail(q, arms, dof), alpha)


def average_over_scale(tail: Callable[[Array], Array], reach: float, dof: float) -> float:
    """Return the average of tail(scale) over scale = sqrt(chi-squared / dof). `reach` is the statistic of the tail.

    A large statistic is exceeded mostly when the scale is small, so the range of scales starts lower for it.
    """
    if math.isinf(dof):
        return float(tail(np.ones(1))[0])
    wide = NEGLIGIBLE / dof
    lowest = -math.sqrt(wide) - wide - 0.5 * math.log1p(reach * reach / dof)
    highest = 1.2 * math.log1p(math.sqrt(wide))
    # The width of the density shrinks with the root of 2 dof, and the step with it.
    steps = math.ceil((highest - lowest) / min(0.28 / math.sqrt(2 * dof), 0.15))
    logs, step = np.linspace(lowest, highest, steps + 1, retstep=True)
    # -dof/2 (e^2x - 1 - 2x) and Stirling's remainder apart: for large dof the density itself is a difference of huge
    # numbers.
    shape = -0.5 * dof * (np.expm1(2 * logs) - 2 * logs)
    weights = float(step) * np.exp(shape + _log_constant(dof))
    return float(weights @ tail(np.exp(logs)))


def critical_value(tail: Callable[[float], float], alpha: float) -> float:
    """Return the point at which a falling tail passes alpha, by false position on a log-log scale (Illinois variant).

    >>> round(critical_value(lambda q: q**-2, 0.01), 9)
    10.0
    """

    def excess(log_q: float) -> float:
        return math.log(max(tail(math.exp(log_q)), 1e-300) / alpha)

    low, high = 0.0, 1.0
    below, above = excess(low), excess(high)
    while below < 0:
        low, high, above = low - 1, low, below
        below = excess(low)
    while above > 0:
        low, high, below = high, high + 1, above
        above = excess(high)
    return math.exp(_false_position(excess, low, high, below, above))


def _false_position(function: Callable[[float], float], low: float, high: float, below: float, above: float) -> float:
    # False position needs about ten evaluations; the limit only guards against an endless loop.
    for _ in range(100):
        middle = high - above * (high - low) / (above - below)
        value = function(middle)
        if abs(value) < 1e-13 or high - low < 1e-14:
            return middle
        if value < 0:
            high, above, below = middle, value, below / 2
        else:
            low, below, above = middle, value, above / 2
    return middle


def _log_constant(dof: float) -> float:
    """Return the logarithm of 2 (dof/2)^(dof/2) e^(-dof/2) / Gamma(dof/2)."""
    half = dof / 2
    # Stirling's formula: for large dof the terms below nearly cancel, and gammaln loses the digits of the rest.
    if half > 1e4:
        return math.log(2) + 0.5 * math.log(half / (2 * math.pi)) - 1 / (12 * half)
    return math.log(2) + half * math.log(half) - half - float(gammaln(half))


def _range_tail(widths: Array, arms: int) -> Array:
    """Return P(range of normal values > width): the largest is at z, and not all others are in [z - width, z]."""
    largest = widths[:, None] / 2 + _SPREAD
    below = ndtr(largest)
    # Kept below 1, whose logarithm of 1 - x would be infinite.
    outside = np.minimum(ndtr(largest - widths[:, None]) / below, 1 - 2.0**-53)
    density = np.exp(-0.5 * largest * largest) * (_STEP / math.sqrt(2 * math.pi))
    missed = -np.expm1((arms - 1) * np.log1p(-outside))
    return np.asarray(arms * np.sum(density * below ** (arms - 1) * missed, axis=1), dtype=np.float64)
