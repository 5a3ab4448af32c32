"""The bound of each pair of rates that proves a limit met: the upper one of a gap, the lower one of a ratio, at alpha each.

A score bound takes a slice of ten right answers for more than it shows, and errs in more than alpha at some true rates. So slices
of up to SMALL samples have the narrower of two exact bounds: the melded one, and the unconditional one (Buehler 1957; Berger &
Boos 1994), which is mostly narrower, but not where rates are near 0 or 1. By enumeration, the narrower one errs in at most
5.05 % at an alpha of 5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import betaincinv, ndtri

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.proportions.exact import two_exact_bound
from pytest_crucible.stats.slices.exact_ratios import exact_lower_ratio
from pytest_crucible.stats.slices.melded_pairs import melded_lower_ratio, melded_upper
from pytest_crucible.stats.slices.pair_scores import difference_bounds, ratio_bounds

Extreme = Literal["gap", "ratio"]
Counts = tuple[Array, Array, Array, Array]
"""Right answers and samples of the first slice of each pair, and of the second."""
# Score bounds of larger slices err in up to 5.5 % at a nominal 5 % (`python -m benchmarks.slice_bounds`).
SMALL = 200
# Bounds are bisected down to 2^-26.
ROUNDING = 1e-6


def met_bounds(kind: Extreme, counts: Counts, alpha: float) -> Array:
    """Return the bound of each pair; only that of the pair that decides, which is furthest off, is as narrow as it can be."""
    x1, n1, x2, n2 = counts
    sign = 1 if kind == "gap" else -1
    bounds = sign * score_bounds(kind, counts, alpha)
    is_constant = (x1 == 0) | (x1 == n1) | (x2 == 0) | (x2 == n2)
    doubtful = np.flatnonzero((np.minimum(n1, n2) <= SMALL) | is_constant)
    if not len(doubtful):
        return sign * bounds

    # With 60 slices there are 3,540 pairs, of which few can be further off than the one with the widest score bound.
    widest = doubtful[[np.argmax(bounds[doubtful])]]
    melded = sign * _melded_bounds(kind, _choose(counts, widest), alpha)
    floor = min(float(melded[0]), sign * exact_bound(kind, counts, int(widest[0]), alpha))
    doubtful = doubtful[sign * _bonferroni_bounds(kind, _choose(counts, doubtful), alpha) > floor - ROUNDING]
    bounds[doubtful] = sign * _melded_bounds(kind, _choose(counts, doubtful), alpha)
    return sign * _narrow_furthest(bounds, doubtful, lambda at: sign * exact_bound(kind, counts, at, alpha))


def score_bounds(kind: Extreme, counts: Counts, alpha: float) -> Array:
    """Return the score bound of each pair."""
    z = -float(ndtri(alpha))
    return difference_bounds(*counts, z, upper=True) if kind == "gap" else ratio_bounds(*counts, z, upper=False)


def exact_bound(kind: Extreme, counts: Counts, at: int, alpha: float) -> float:
    """Return the unconditional bound of one pair; it takes some milliseconds."""
    pair = tuple(round(float(column[at])) for column in counts)
    return two_exact_bound(*pair, alpha=alpha, side="upper") if kind == "gap" else exact_lower_ratio(*pair, alpha)


def _melded_bounds(kind: Extreme, counts: Counts, alpha: float) -> Array:
    # Small slices have few different counts: many pairs have the same ones.
    distinct, places = np.unique(np.stack(counts), axis=1, return_inverse=True)
    melded: Callable[..., Array] = melded_upper if kind == "gap" else melded_lower_ratio
    return np.asarray(melded(*distinct, alpha)[places])


def _bonferroni_bounds(kind: Extreme, counts: Counts, alpha: float) -> Array:
    """Return the bounds of Clopper and Pearson's limits at alpha / 2 each, which are no narrower than melded ones."""
    x1, n1, x2, n2 = counts
    if kind == "gap":
        return _upper_limits(x1, n1, alpha / 2) - _lower_limits(x2, n2, alpha / 2)
    return _lower_limits(x1, n1, alpha / 2) / _upper_limits(x2, n2, alpha / 2)


def _upper_limits(x: Array, n: Array, alpha: float) -> Array:
    return np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1.0), 1 - alpha), 1.0)


def _lower_limits(x: Array, n: Array, alpha: float) -> Array:
    return np.where(x > 0, betaincinv(np.maximum(x, 1.0), n - x + 1, alpha), 0.0)


def _choose(counts: Counts, places: Codes) -> Counts:
    x1, n1, x2, n2 = (column[places] for column in counts)
    return x1, n1, x2, n2


def _narrow_furthest(bounds: Array, doubtful: Codes, exact: Callable[[int], float]) -> Array:
    """Return the bounds, with the largest replaced by the exact bound of its pair where that is smaller."""
    pending = set(doubtful.tolist())
    while (at := int(np.argmax(bounds))) in pending:
        bounds[at] = min(bounds[at], exact(at))
        pending.remove(at)
    return bounds
