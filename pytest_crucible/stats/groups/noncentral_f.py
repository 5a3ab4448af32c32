"""Intervals for effect sizes of an F test, by inversion of the noncentral F distribution.

Eta, omega and epsilon squared are three estimates of one population value, ncp / (ncp + N). The interval is the same
for all three.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ncfdtr

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import check_share

Dof = tuple[float, float]


def eta_squared_interval(statistic: float, dof: Dof, n: int, *, level: float = 0.95) -> Interval:
    """Return the interval for the share of variance between groups, from a one-way F over n observations.

    Its low end is above 0 exactly when p is below (1 - level) / 2, because an F test has one tail: use level 0.90 beside
    a test at 0.05. When F is improbably small, both ends are 0. Steiger 2004 (Psychological Methods 9:164); R:
    effectsize::eta_squared(alternative="two.sided").

    >>> interval = eta_squared_interval(10.211265, (2, 24), 27, level=0.9)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.170092, 0.599128)
    """
    low, high = noncentrality_interval(statistic, dof, level=level)
    return Interval(low=low / (low + n), high=high / (high + n), level=level, method="noncentral f")


def cohens_f_interval(statistic: float, dof: Dof, n: int, *, level: float = 0.95) -> Interval:
    """Return the interval for Cohen's f, the standard deviation of the group means over that inside groups.

    f is sqrt(ncp / N).

    >>> interval = cohens_f_interval(10.211265, (2, 24), 27, level=0.9)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.4527, 1.2225)
    """
    low, high = noncentrality_interval(statistic, dof, level=level)
    return Interval(low=math.sqrt(low / n), high=math.sqrt(high / n), level=level, method="noncentral f")


def noncentrality_interval(statistic: float, dof: Dof, *, level: float = 0.95) -> tuple[float, float]:
    """Return the two noncentralities for which F lies at the upper and at the lower (1 - level) / 2 tail.

    Raises ValueError below F = 0.

    >>> low, high = noncentrality_interval(10.211265, (2, 24), level=0.9)
    >>> round(low, 4), round(high, 4)
    (5.5337, 40.3532)
    """
    check_share(level, "level")
    if not (0 <= statistic < math.inf and min(dof) > 0):
        raise ValueError(
            f"expected a finite F of at least 0 and positive degrees of freedom, not {statistic!r} and {dof!r}"
        )
    tail = (1 - level) / 2
    return _noncentrality(statistic, dof, 1 - tail), _noncentrality(statistic, dof, tail)


def _noncentrality(statistic: float, dof: Dof, share: float) -> float:
    """Return the noncentrality at which a share of all F is below the statistic; 0 when fewer do at 0."""
    return _falling_root(lambda noncentrality: float(ncfdtr(*dof, noncentrality, statistic)) - share)


def _falling_root(function: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    if function(low) <= 0:
        return 0.0
    # Doubling finds an upper end for the bisection at any noncentrality.
    while function(high) > 0:
        low, high = high, 2 * high
    # Bisection, because scipy's inverse, ncfdtrinc, was wrong by up to half (docs/decisions/0008).
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
