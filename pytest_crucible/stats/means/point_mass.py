"""What data without any variation still say: n observations, all equal.

A standard error of 0 would claim certainty. Instead, n equal observations say that at most a share 1 - alpha^(1/n) of
the population is different (the rule of three); the rest may lie anywhere inside the bounds.
"""

from __future__ import annotations

from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import Range, check_share


def point_mass_interval(value: float, n: int, *, bounds: Range, level: float = 0.95) -> Interval:
    """Interval for a mean when all n independent observations equal `value` and all possible ones lie in `bounds`.

    >>> interval = point_mass_interval(1.0, 59, bounds=(0.0, 1.0))
    >>> round(interval.low, 4), interval.high
    (0.9505, 1.0)
    """
    check_share(level, "level")
    unseen = 1 - (1 - level) ** (1 / n)
    low, high = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    return Interval(low=low, high=high, level=level, method="point mass")


def point_mass_p_value(value: float, n: int, *, bounds: Range) -> float:
    """The smallest alpha at which `point_mass_interval` excludes 0; 1 when it never does.

    >>> round(point_mass_p_value(1.0, 5, bounds=(-1.0, 1.0)), 5)
    0.03125
    """
    if value == 0:
        return 1.0
    opposite = abs(bounds[0] if value > 0 else bounds[1])
    # Only a population with observations on the other side of 0 could have a mean of 0.
    return (opposite / (opposite + abs(value))) ** n


def sign_flip_p_value(n: int) -> float:
    """Exact two-sided sign-flip p-value of n equal differences that are not 0: two of the 2^n sign patterns.

    >>> sign_flip_p_value(6)
    0.03125
    """
    return 2.0 ** (1 - n) if n else 1.0
