"""Noncentral t distribution, inverted: the noncentralities that are compatible with an observed t statistic.

T = (Z + ncp) / S with S = chi_dof / sqrt(dof), so that P(T <= t) is the mean of Phi(t S - ncp): one smooth integral,
solved to 1e-14. The limits of scipy's `nctdtrinc` are good to 1e-7 at t = 2 and to 1e-5 at t = 100.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from pytest_crucible.stats.arrays import Array, check_share

# Nodes of each of three panels: before, across and after the rise of Phi.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
# Standard deviations of S, and of Z, that the integral covers: beyond lies less than 1e-30.
REACH = 12.0
# A limit against endless loops.
MOST_STEPS = 60
# Relative change at which the search ends: near the last bit of a double.
CLOSE = 1e-14


def noncentral_t_limits(t: float, dof: float, *, level: float = 0.95) -> tuple[float, float]:
    """Return the noncentralities for which t lies at the upper, and at the lower, (1 - level) / 2 tail.

    Steiger & Fouladi (1997). They bracket t * J, and contain 0 exactly when the central t test does not reject at
    1 - level. R: uniroot(function(d) pt(t, dof, d) - 0.975, ...).

    >>> low, high = noncentral_t_limits(2.0, 10)
    >>> round(low, 4), round(high, 4)
    (-0.1835, 4.1011)
    """
    _check_dof(dof)
    check_share(level, "level")
    if not math.isfinite(t):
        raise ValueError(f"a t statistic must be finite, not {t!r}")
    tail = (1 - level) / 2
    return -_upper_limit(-t, dof, tail), _upper_limit(t, dof, tail)


def _check_dof(dof: float) -> None:
    if not dof >= 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {dof!r}")


def _upper_limit(t: float, dof: float, tail: float) -> float:
    """Return the noncentrality with P(T <= t) = tail.

    Newton's steps on the normal scale, where the function is nearly a line.
    """
    target = float(ndtri(tail))
    ncp = t - target * math.sqrt(1 + t * t / (2 * dof))
    low, high = -math.inf, math.inf
    for _ in range(MOST_STEPS):
        share, slope = _cdf(t, dof, ncp)
        if share > tail:
            low = ncp
        else:
            high = ncp
        step = _newton_step(share, slope, target)
        following = ncp - step
        # Also where the share is so small that its normal quantile is infinite.
        if not low < following < high:
            following = _inside(low, high)
        if abs(following - ncp) <= CLOSE * max(1.0, abs(ncp)):
            return following
        ncp = following
    return ncp


def _newton_step(share: float, slope: float, target: float) -> float:
    if not 0 < share < 1 or slope == 0:
        return math.nan
    z = float(ndtri(share))
    return (z - target) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / slope


def _inside(low: float, high: float) -> float:
    if math.isinf(low):
        return high - max(1.0, abs(high))
    return low + max(1.0, abs(low)) if math.isinf(high) else (low + high) / 2


def _cdf(t: float, dof: float, ncp: float) -> tuple[float, float]:
    """Return P(T <= t), and its derivative by the noncentrality."""
    positions, weights = _panels(t, dof, ncp)
    # The density of S but for its constant, which cancels: no gamma functions, no lost digits.
    log_density = (dof - 1) * np.log(positions) - dof * (positions * positions - 1) / 2
    mass = weights * np.exp(log_density - log_density.max())
    distance, total = t * positions - ncp, float(mass.sum())
    slope = -float(mass @ np.exp(-distance * distance / 2)) / math.sqrt(2 * math.pi)
    return float(mass @ ndtr(distance)) / total, slope / total


def _panels(t: float, dof: float, ncp: float) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on the range of S, cut where t S = ncp -+ REACH."""
    width = REACH / math.sqrt(2 * dof)
    edges = [max(0.0, 1 - width), 1 + width]
    if t:
        edges += [edge for sign in (-1, 1) if edges[0] < (edge := (ncp + sign * REACH) / t) < edges[1]]
    cuts = np.sort(np.array(edges))
    half = np.diff(cuts)[:, None] / 2
    positions = cuts[:-1, None] + half * (NODES + 1)
    return positions.ravel(), (half * WEIGHTS).ravel()
