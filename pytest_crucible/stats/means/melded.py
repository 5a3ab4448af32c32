"""Gaffke's bounds for the difference of two independent means, melded into one.

Each arm's bounds are the quantiles of a weighted mean (`gaffke`). For a lower bound of the difference, the candidate's is
weighted with the low end of the range and the baseline's with the high end; the bound is the alpha-quantile of the difference
of the two (Fay, Proschan & Brittain 2015, Biometrics 71:146). Two bounds at alpha / 2 each would be wider: 3.92 instead of 2.33
standard errors of one of two arms that are alike.

The distribution of the difference is an integral over one weighted mean, by Gauss-Hermite quadrature on the normal scale, on
which its quantiles are nearly a line. With the narrower arm inside, 8 nodes are exact to 0.1 %. Nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, Range, Side, check_share, check_side
from pytest_crucible.stats.means.gaffke import gaffke_bound, gaffke_p_value
from pytest_crucible.stats.means.moments import two_arms
from pytest_crucible.stats.planning.roots import bracketed_root

# Two more than the 8 that are exact to 0.1 %, see above.
_NODES = 10
# Further digits would be lost in the quadrature.
_EXACT = 1e-9
_SMALLEST = 1e-300
_LARGEST = 1 - 1e-16


def melded_bound(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    clusters: tuple[Labels, Labels] | None = None,
) -> float:
    """Return the one-sided bound for candidate - baseline of two independent arms; `bounds` are those of the scores.

    Raises ValueError for values outside the bounds and for infinite ones, NotEnoughData below two values or five clusters
    in an arm.

    >>> round(melded_bound([1.0] * 30, [1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 3)
    -0.095
    """
    from scipy.special import ndtri

    check_share(alpha, "alpha")
    check_side(side)
    first, second = two_arms(candidate, baseline)
    if side == "upper":
        mirrored = None if clusters is None else clusters[::-1]
        return -melded_bound(second, first, bounds=bounds, alpha=alpha, side="lower", clusters=mirrored)
    law, goal = _law(first, second, bounds, clusters), float(ndtri(alpha))

    def excess(difference: float) -> float:
        return float(ndtri(min(max(law(difference), _SMALLEST), _LARGEST))) - goal

    span, middle = bounds[1] - bounds[0], float(first.mean() - second.mean())
    near, far = -span, middle
    if (at_far := excess(far)) <= 0:
        far = float(first.max() - second.min())
        at_far = excess(far)
    # Without a value on the far side, the weighted means never reach it.
    return far if at_far <= 0 else bracketed_root(excess, near, excess(near), far, at_far, error=_EXACT * span)


def melded_p_value(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    null: float,
    bounds: Range,
    side: Side,
    clusters: tuple[Labels, Labels] | None = None,
) -> float:
    """Return the smallest alpha at which `melded_bound` excludes `null`: for "lower", evidence of a larger difference.

    >>> p_value = melded_p_value([1.0] * 30, [1.0] * 30, null=-0.1, bounds=(0.0, 1.0), side="lower")
    >>> round(p_value, 3)
    0.043
    """
    check_side(side)
    first, second = two_arms(candidate, baseline)
    if side == "upper":
        mirrored = None if clusters is None else clusters[::-1]
        return _law(second, first, bounds, mirrored)(-null)
    return _law(first, second, bounds, clusters)(null)


def _law(
    candidate: Array, baseline: Array, bounds: Range, clusters: tuple[Labels, Labels] | None
) -> Callable[[float], float]:
    """Return the distribution function of the difference of the weighted means."""
    ours, theirs = (None, None) if clusters is None else clusters
    chances, weights = _quadrature()

    def candidate_below(mean: float) -> float:
        return gaffke_p_value(candidate, null=mean, end=bounds[0], side="lower", clusters=ours)

    def baseline_above(mean: float) -> float:
        return gaffke_p_value(baseline, null=mean, end=bounds[1], side="upper", clusters=theirs)

    def of_candidate(chance: float) -> float:
        return gaffke_bound(candidate, end=bounds[0], alpha=chance, side="lower", clusters=ours)

    def of_baseline(chance: float) -> float:
        return gaffke_bound(baseline, end=bounds[1], alpha=1 - chance, side="upper", clusters=theirs)

    # The function outside must be no steeper than the quantiles inside, or the nodes would miss its step.
    if _width(of_baseline) <= _width(of_candidate):
        inside = [of_baseline(chance) for chance in chances]
        return lambda difference: float(weights @ [candidate_below(difference + mean) for mean in inside])
    inside = [of_candidate(chance) for chance in chances]
    return lambda difference: float(weights @ [baseline_above(mean - difference) for mean in inside])


def _width(quantile: Callable[[float], float]) -> float:
    return quantile(0.84) - quantile(0.16)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[list[float], Array]:
    """Return the chances of the nodes and their weights, for a mean over the standard normal distribution."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return ndtr(nodes).tolist(), weights / weights.sum()
