"""Intervals and p-values for n equal observations.

A standard error of 0 would claim certainty. Instead, n equal observations show that at most a share 1 - alpha^(1/n) of
the population differs (the rule of three); that share may lie anywhere inside the bounds.
"""

from __future__ import annotations

import math

from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Range,
    check_alternative,
    check_share,
    is_finite_range,
)
from pytest_crucible.stats.interval import Interval

SMALLEST = math.ulp(0.0)
"""The smallest positive float: p-values below it are returned as this, never as 0."""


def point_mass_interval(
    value: float, n: int, *, bounds: Range, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Interval:
    """Return the interval for a mean when n independent observations equal `value` and the population is in `bounds`.

    Each end alone errs in at most a share 1 - level, so a one-sided alternative only moves the other end to infinity.

    >>> interval = point_mass_interval(1.0, 59, bounds=(0.0, 1.0))
    >>> round(interval.low, 4), interval.high
    (0.9505, 1.0)
    """
    check_share(level, "level")
    check_alternative(alternative)
    # Solves (1 - unseen)^n = 1 - level: the largest share that n draws miss with probability 1 - level.
    unseen = 1 - (1 - level) ** (1 / n)
    low = -math.inf if alternative == "less" else value - unseen * (value - bounds[0])
    high = math.inf if alternative == "greater" else value + unseen * (bounds[1] - value)
    return Interval(low=low, high=high, level=level, method="point mass")


def bounded_point_mass_interval(
    value: float, n: int, *, bounds: Range | None, level: float, alternative: Alternative = "two-sided"
) -> Interval | None:
    """Return the point-mass interval when both bounds are finite, and None otherwise.

    >>> bounded_point_mass_interval(1.0, 59, bounds=None, level=0.95) is None
    True
    """
    finite_bounds = bounds if is_finite_range(bounds) else None
    if finite_bounds is None:
        return None
    return point_mass_interval(value, n, bounds=finite_bounds, level=level, alternative=alternative)


def point_mass_p_value(value: float, n: int, *, bounds: Range) -> float:
    """Return the smallest alpha at which `point_mass_interval` excludes 0; 1 when it never does.

    >>> round(point_mass_p_value(1.0, 5, bounds=(-1.0, 1.0)), 5)
    0.03125
    """
    if value == 0:
        return 1.0
    opposite = abs(bounds[0] if value > 0 else bounds[1])
    # Only a population with observations on the other side of 0 could have a mean of 0.
    return max((opposite / (opposite + abs(value))) ** n, SMALLEST)


def sign_flip_p_value(n: int) -> float:
    """Return the exact two-sided sign-flip p-value of n equal non-zero differences: two of the 2^n sign patterns.

    >>> sign_flip_p_value(6)
    0.03125
    """
    return max(2.0 ** (1 - n), SMALLEST) if n else 1.0


def equal_differences_p_value(difference: float, n: int, alternative: Alternative = "two-sided") -> float:
    """Return the exact sign-flip p-value of n differences that all equal `difference`; 1 when it is 0.

    >>> equal_differences_p_value(0.1, 6, "greater"), equal_differences_p_value(0.1, 6, "less")
    (0.015625, 1.0)
    """
    extreme = sign_flip_p_value(n)
    return _p_value_towards(difference, extreme, extreme / 2, alternative)


def constant_arms_p_value(difference: float, n: tuple[int, int], alternative: Alternative = "two-sided") -> float:
    """Return the exact permutation p-value of two constant arms: 2 / C(n1 + n2, n1), or 1 when they are equal.

    >>> round(constant_arms_p_value(1.0, (4, 5)), 9)
    0.015873016
    """
    # An exact integer: it exceeds a float's range for arms of about 500 values.
    splits = math.comb(n[0] + n[1], n[0])
    return _p_value_towards(difference, min(1.0, 2 / splits), 1 / splits, alternative)


def distance(value: float, other: float) -> float:
    """Return value - other, with a rounding error set to 0.

    >>> distance(0.1 + 0.2, 0.3), distance(0.5, 0.25)
    (0.0, 0.25)
    """
    return 0.0 if abs(value - other) <= ROUNDING * max(abs(value), abs(other)) else value - other


def _p_value_towards(difference: float, two_sided: float, one_sided: float, alternative: Alternative) -> float:
    check_alternative(alternative)
    if difference == 0:
        return 1.0
    if alternative == "two-sided":
        return max(two_sided, SMALLEST)
    return max(one_sided, SMALLEST) if (difference > 0) == (alternative == "greater") else 1.0
