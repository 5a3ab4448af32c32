"""Means of truncated normal variables: the value of the mean at which an observation is a given quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import log_ndtr

# Standard errors beyond which a solution is reported as infinite: log tails lose their digits there.
FARTHEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The range in which an observation could lie, in standard errors from where it does lie: low <= 0 <= high.

    `reach` also keeps it within this many standard errors of its mean (infinite: no condition).
    """

    low: float
    high: float
    reach: float = math.inf


def solve_truncated_mean(truncation: Truncation, share: float) -> float:
    """Return the mean of a truncated unit normal variable for which P(variable <= 0) = `share`.

    The share descends as the mean grows (Andrews, Kitagawa & McCloskey 2024, section 4), so that bisection finds it. -inf
    or inf when the mean is more than a million standard errors away.

    >>> free = Truncation(low=-math.inf, high=math.inf)
    >>> round(solve_truncated_mean(free, 0.025), 6), round(solve_truncated_mean(Truncation(low=-1.0, high=math.inf), 0.5), 6)
    (1.959964, -0.313724)
    """
    low, high = _bracket(truncation, share)
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(low) else high
    # 60 halvings of at most 1e6 leave less than 1e-11.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_below(truncation, middle) > share else (low, middle)
    return (low + high) / 2


def share_below(truncation: Truncation, mean: float) -> float:
    """Return P(variable <= 0) of a truncated unit normal variable with this mean.

    >>> round(share_below(Truncation(low=-1.0, high=1.0), 0.0), 6)
    0.5
    """
    low, high = max(truncation.low, mean - truncation.reach), min(truncation.high, mean + truncation.reach)
    if low >= 0 or high <= 0:
        return 0.0 if low >= 0 else 1.0
    # Logarithms of the tail on the side away from the mean keep their digits at any distance.
    if mean < 0:
        return 1 - _ratio(log_ndtr(mean), log_ndtr(mean - low), log_ndtr(mean - high))
    return _ratio(log_ndtr(-mean), log_ndtr(high - mean), log_ndtr(low - mean))


def _ratio(part: float, whole: float, outside: float) -> float:
    """Return (e^part - e^outside) / (e^whole - e^outside)."""
    return float(math.exp(part - whole) * math.expm1(outside - part) / math.expm1(outside - whole))


def _bracket(truncation: Truncation, share: float) -> tuple[float, float]:
    """Return two means between which the solution lies; both infinite when it is too far away."""
    if math.isfinite(truncation.reach):
        return -truncation.reach, truncation.reach
    low = high = 1.0
    while share_below(truncation, -low) < share:
        low *= 2
        if low > FARTHEST:
            return -math.inf, -math.inf
    while share_below(truncation, high) > share:
        high *= 2
        if high > FARTHEST:
            return math.inf, math.inf
    return -low, high
