"""Integrals over a share between 0 and 1, such as the difference of two posterior rates.

On the scale of log odds a beta density is a smooth bell, however close its rate is to 0 or 1, and Gauss-Legendre on
panels about one standard deviation wide is exact to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, log_expit, logit

from pytest_crucible.stats.observations import Array

Beta = tuple[float, float]
"""The two parameters of a beta law."""
POINTS = 16
"""Of each panel."""
PANEL = 1.25
"""Width of a panel in standard deviations of the log odds."""
NEGLIGIBLE = 60.0
"""exp(-60) of the peak is left out at either side."""


def expectation(law: Beta, function: Callable[[Array, Array], Array], *, kinks: Sequence[float] = ()) -> float:
    """The mean of function(share, rest) under a beta law, where rest is 1 - share with all its digits.

    `kinks` are shares at which the function is not smooth.

    >>> round(expectation((2.0, 3.0), lambda share, rest: share), 12)
    0.4
    """
    nodes, widths = _nodes(law, tuple(sorted({kink for kink in kinks if 0 < kink < 1})))
    a, b = law
    weights = widths * np.exp(a * log_expit(nodes) + b * log_expit(-nodes) - betaln(a, b))
    # The weights sum to 1 but for the rounding of betaln, which is thus divided out.
    return float(np.dot(weights, function(expit(nodes), expit(-nodes))) / weights.sum())


def below(law: Beta, share: Array, rest: Array) -> Array:
    """The distribution function of a beta law at `share`, from whichever of share and rest is small.

    >>> float(below((1.0, 2.0), np.array([0.5]), np.array([0.5]))[0])
    0.75
    """
    a, b = law
    return np.asarray(np.where(share < rest, betainc(a, b, share), betaincc(b, a, rest)), dtype=np.float64)


def _nodes(law: Beta, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Log odds at which to evaluate, and their widths: panels between all edges and, graded, towards each kink."""
    low, high = _reach(law), -_reach((law[1], law[0]))
    step = PANEL * math.sqrt(1 / law[0] + 1 / law[1])
    edges = list(np.linspace(low, high, max(2, math.ceil((high - low) / step) + 1)))
    for kink in (float(logit(kink)) for kink in kinks):
        if low < kink < high:
            grades = step * 0.25 ** np.arange(24)
            edges += [kink, *(kink - grades), *(kink + grades)]
    bounds = np.unique(np.clip(edges, low, high))
    points, weights = _panel()
    half, middle = np.diff(bounds)[:, None] / 2, (bounds[1:] + bounds[:-1])[:, None] / 2
    return (middle + half * points).ravel(), (half * weights).ravel()


@cache
def _panel() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(POINTS)


def _reach(law: Beta) -> float:
    """The log odds below which the density of the log odds is negligible: bisection of a log-concave curve."""
    a, b = law
    peak = math.log(a / b)

    def fall(odds: float) -> float:
        return float(a * (log_expit(odds) - log_expit(peak)) + b * (log_expit(-odds) - log_expit(-peak)))

    distance = math.sqrt(1 / a + 1 / b)
    while fall(peak - distance) > -NEGLIGIBLE:
        distance *= 1.5
    return peak - distance
