"""False "met" of two slices, exactly: over all counts of both, at true rates that lie at the limit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from pytest_crucible.stats.slices.pair_bounds import Extreme, bound_pairs
from pytest_crucible.stats.slices.slicing import SliceMeans

RATES = np.arange(0.0, 1.0001, 0.01)
ALPHA = 0.05
CELLS = [(10, 10), (10, 20), (10, 50), (10, 200), (20, 20), (20, 50), (20, 200), (40, 50), (40, 200)]
"""Samples of both slices, one of them below 50."""
LARGER = [(50, 50), (50, 100), (50, 200), (80, 100), (100, 200), (200, 200)]
LIMITS = {"gap": (0.05, 0.1, 0.2, 0.3, 0.4), "ratio": (0.5, 0.7, 0.8, 0.9)}


def false_met(kind: Extreme, sizes: tuple[int, int], limit: float) -> np.ndarray:
    """Return the chance that a limit is proven met, for all pairs of true rates that lie at it."""
    met = _met(kind, sizes, limit)
    return np.array([_chance(sizes, rates, met) for high in RATES for rates in _at_limit(kind, limit, high)])


def _at_limit(kind: Extreme, limit: float, high: float) -> Iterator[tuple[float, float]]:
    low = high - limit if kind == "gap" else high * limit
    if low >= -1e-9 and high > 0:
        yield high, max(low, 0.0)
        yield max(low, 0.0), high


def _chance(sizes: tuple[int, int], rates: tuple[float, float], met: np.ndarray) -> float:
    first, second = (binom.pmf(np.arange(n + 1), n, min(rate, 1.0)) for n, rate in zip(sizes, rates, strict=True))
    return float(first @ met @ second)


def _met(kind: Extreme, sizes: tuple[int, int], limit: float) -> np.ndarray:
    """Return, for all counts of both slices, whether every bound that proves the limit met clears it."""
    counts = [axis.ravel().astype(float) for axis in np.indices([n + 1 for n in sizes])]
    of_slices = [_counted(right, np.full_like(right, n)) for right, n in zip(counts, sizes, strict=True)]
    places = np.arange(len(counts[0]))
    cleared = np.ones(len(places), dtype=bool)
    for plus, minus in (of_slices, of_slices[::-1]):
        _, lower, upper = bound_pairs(kind, plus, minus, places, places, 2, ALPHA, ALPHA)
        # A ratio of 0 / 0 has no value, and proves nothing.
        cleared &= upper < limit if kind == "gap" else lower > limit
    return cleared.reshape([n + 1 for n in sizes])


def _counted(right: np.ndarray, sizes: np.ndarray) -> SliceMeans:
    means = right / sizes
    return SliceMeans(
        sizes=sizes, means=means, totals=right, errors=np.sqrt(means * (1 - means) / sizes), centres=means,
        dof=sizes - 1, is_counted=True,
    )  # fmt: skip
