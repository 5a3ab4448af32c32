"""Integrals over a share between 0 and 1, such as the difference of two posterior rates.

On the scale of log odds a beta density is a smooth bell, however close its rate is to 0 or 1, and Gauss-Legendre
quadrature on panels about one standard deviation wide is exact to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, log_expit, logit

from pytest_crucible.stats.arrays import Array

Beta = tuple[float, float]
"""The two parameters of a beta distribution."""
# Quadrature points of each panel.
POINTS = 16
# Width of a panel in standard deviations of the log odds.
PANEL = 1.25
# Less than exp(-60) of the peak is left out on either side.
NEGLIGIBLE = 60.0


def expectation(beta: Beta, function: Callable[[Array, Array], Array], *, kinks: Sequence[float] = ()) -> float:
    """Return the mean of function(share, rest) under a beta distribution.

    `rest` is 1 - share with all its digits. `kinks` are shares at which the function is not smooth.

    >>> round(expectation((2.0, 3.0), lambda share, rest: share), 12)
    0.4
    """
    nodes, widths = _nodes(beta, tuple(sorted({kink for kink in kinks if 0 < kink < 1})))
    a, b = beta
    weights = widths * np.exp(a * log_expit(nodes) + b * log_expit(-nodes) - betaln(a, b))
    # The weights sum to 1 but for the rounding of betaln, which is thus divided out.
    return float(np.dot(weights, function(expit(nodes), expit(-nodes))) / weights.sum())


def beta_cdf(beta: Beta, share: Array, rest: Array) -> Array:
    """Return the beta distribution function at `share`, from the smaller of share and rest.

    >>> float(beta_cdf((1.0, 2.0), np.array([0.5]), np.array([0.5]))[0])
    0.75
    """
    a, b = beta
    return np.asarray(np.where(share < rest, betainc(a, b, share), betaincc(b, a, rest)), dtype=np.float64)


def _nodes(beta: Beta, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Return log odds at which to evaluate, and their widths.

    Panels lie between all edges, graded towards each kink.
    """
    low, high = _reach(beta), -_reach((beta[1], beta[0]))
    step = PANEL * math.sqrt(1 / beta[0] + 1 / beta[1])
    edges = list(np.linspace(low, high, max(2, math.ceil((high - low) / step) + 1)))
    for kink in (float(logit(kink)) for kink in kinks):
        if low < kink < high:
            # Panels shrink fourfold towards a kink, until they are below the resolution of a double.
            grades = step * 0.25 ** np.arange(24)
            edges += [kink, *(kink - grades), *(kink + grades)]
    bounds = np.unique(np.clip(edges, low, high))
    points, weights = _panel()
    half, middle = np.diff(bounds)[:, None] / 2, (bounds[1:] + bounds[:-1])[:, None] / 2
    return (middle + half * points).ravel(), (half * weights).ravel()


@cache
def _panel() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(POINTS)


def _reach(beta: Beta) -> float:
    """Return the log odds below which the density of the log odds is negligible.

    Found by stepping down a log-concave curve.
    """
    a, b = beta
    peak = math.log(a / b)

    def fall(odds: float) -> float:
        return float(a * (log_expit(odds) - log_expit(peak)) + b * (log_expit(-odds) - log_expit(-peak)))

    distance = math.sqrt(1 / a + 1 / b)
    while fall(peak - distance) > -NEGLIGIBLE:
        # The logarithm of the density is concave, so it only falls on the way out.
        distance *= 1.5
    return peak - distance
