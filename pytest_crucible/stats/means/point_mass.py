"""What data without any variation still say: n observations, all equal.

A standard error of 0 would claim certainty. Instead, n equal observations say that at most a share 1 - alpha^(1/n) of
the population is different (the rule of three); the rest may lie anywhere inside the bounds.
"""

from __future__ import annotations

import math

from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import (
    ROUNDING,
    Alternative,
    Range,
    check_alternative,
    check_share,
    is_finite_range,
)

SMALLEST = math.ulp(0.0)
"""The smallest positive float stands for all smaller p-values: none of them is 0."""


def point_mass_interval(
    value: float, n: int, *, bounds: Range, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Interval:
    """Interval for a mean when all n independent observations equal `value` and all possible ones lie in `bounds`.

    Each end alone errs in at most a share 1 - level, so a one-sided alternative only moves the other end to infinity.

    >>> interval = point_mass_interval(1.0, 59, bounds=(0.0, 1.0))
    >>> round(interval.low, 4), interval.high
    (0.9505, 1.0)
    """
    check_share(level, "level")
    check_alternative(alternative)
    unseen = 1 - (1 - level) ** (1 / n)
    low = -math.inf if alternative == "less" else value - unseen * (value - bounds[0])
    high = math.inf if alternative == "greater" else value + unseen * (bounds[1] - value)
    return Interval(low=low, high=high, level=level, method="point mass")


def known_interval(
    value: float, n: int, *, bounds: Range | None, level: float, alternative: Alternative = "two-sided"
) -> Interval | None:
    """The point-mass interval where both bounds are known and finite, and None otherwise.

    >>> known_interval(1.0, 59, bounds=None, level=0.95) is None
    True
    """
    known = bounds if is_finite_range(bounds) else None
    if known is None:
        return None
    return point_mass_interval(value, n, bounds=known, level=level, alternative=alternative)


def point_mass_p_value(value: float, n: int, *, bounds: Range) -> float:
    """The smallest alpha at which `point_mass_interval` excludes 0; 1 when it never does.

    >>> round(point_mass_p_value(1.0, 5, bounds=(-1.0, 1.0)), 5)
    0.03125
    """
    if value == 0:
        return 1.0
    opposite = abs(bounds[0] if value > 0 else bounds[1])
    # Only a population with observations on the other side of 0 could have a mean of 0.
    return max((opposite / (opposite + abs(value))) ** n, SMALLEST)


def sign_flip_p_value(n: int) -> float:
    """Exact two-sided sign-flip p-value of n equal differences that are not 0: two of the 2^n sign patterns.

    >>> sign_flip_p_value(6)
    0.03125
    """
    return max(2.0 ** (1 - n), SMALLEST) if n else 1.0


def equal_differences_p_value(difference: float, n: int, alternative: Alternative = "two-sided") -> float:
    """Exact sign-flip p-value of n differences that all equal `difference`; 1 when it is 0.

    >>> equal_differences_p_value(0.1, 6, "greater"), equal_differences_p_value(0.1, 6, "less")
    (0.015625, 1.0)
    """
    extreme = sign_flip_p_value(n)
    return _directed(difference, extreme, extreme / 2, alternative)


def constant_arms_p_value(difference: float, n: tuple[int, int], alternative: Alternative = "two-sided") -> float:
    """Exact permutation p-value of two arms without variation: 2 / C(n1 + n2, n1), or 1 when they are equal.

    >>> round(constant_arms_p_value(1.0, (4, 5)), 9)
    0.015873016
    """
    splits = math.comb(n[0] + n[1], n[0])
    return _directed(difference, min(1.0, 2 / splits), 1 / splits, alternative)


def distance(value: float, other: float) -> float:
    """value - other, and 0 where that is only rounding.

    >>> distance(0.1 + 0.2, 0.3), distance(0.5, 0.25)
    (0.0, 0.25)
    """
    return 0.0 if abs(value - other) <= ROUNDING * max(abs(value), abs(other)) else value - other


def _directed(difference: float, both: float, one: float, alternative: Alternative) -> float:
    check_alternative(alternative)
    if difference == 0:
        return 1.0
    if alternative == "two-sided":
        return max(both, SMALLEST)
    return max(one, SMALLEST) if (difference > 0) == (alternative == "greater") else 1.0
