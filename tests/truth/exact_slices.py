"""Exact rates at which a limit of two slices is proven met: over all counts of both, at true rates at the limit or within it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import binom

from pytest_crucible.stats.slices.pair_scores import melded_lower_ratio, melded_upper
from pytest_crucible.stats.slices.pairs import SMALL, Counts, Extreme, exact_bound, score_bounds

Clears = Callable[[Extreme, Counts, float], np.ndarray]
RATES = np.arange(0.0, 1.0001, 0.01)
ALPHA = 0.05
CELLS = [(10, 10), (10, 20), (10, 50), (10, 200), (20, 20), (20, 50), (20, 200), (40, 50)]
CELLS += [(50, 50), (50, 60), (50, 100), (80, 100), (200, 200)]
"""Samples of both slices."""
LARGER = [(250, 250), (400, 400)]
"""Where score bounds are used, unless a slice is all right or all wrong."""
LIMITS = {"gap": (0.05, 0.1, 0.2, 0.3, 0.4), "ratio": (0.5, 0.7, 0.8, 0.9)}
# No unconditional bound is narrower than the score bound: none is computed where that is beyond the limit by as much.
SCREEN = 0.001
# Each of the two bounds errs in at most alpha. The narrower of them may err a hair more often: .0505 with 200 and 200 samples.
HELD = 0.0506


def false_met(kind: Extreme, sizes: tuple[int, int], limit: float) -> np.ndarray:
    """Return the chance that a limit is proven met, for all pairs of true rates that lie at it."""
    met = _met(kind, sizes, limit, _clears)
    return np.array([_chance(sizes, rates, met) for high in RATES for rates in _at_limit(kind, limit, high)])


def power(rule: str, kind: Extreme, sizes: tuple[int, int], *, rate: float, limit: float) -> float:
    """Return the chance that a limit is proven met by one of the rules where both slices have the same true rate."""
    return _chance(sizes, (rate, rate), _met(kind, sizes, limit, RULES[rule]))


def _at_limit(kind: Extreme, limit: float, high: float) -> Iterator[tuple[float, float]]:
    low = high - limit if kind == "gap" else high * limit
    if low >= -1e-9 and high > 0:
        yield high, max(low, 0.0)
        yield max(low, 0.0), high


def _chance(sizes: tuple[int, int], rates: tuple[float, float], met: np.ndarray) -> float:
    first, second = (binom.pmf(np.arange(n + 1), n, min(rate, 1.0)) for n, rate in zip(sizes, rates, strict=True))
    return float(first @ met @ second)


def _met(kind: Extreme, sizes: tuple[int, int], limit: float, clears: Clears) -> np.ndarray:
    """Return, for all counts of both slices, whether a bound that proves the limit met clears it, in both directions."""
    first, second = (axis.ravel().astype(float) for axis in np.indices([n + 1 for n in sizes]))
    n, m = (np.full_like(first, size) for size in sizes)
    forth = clears(kind, (first, n, second, m), limit).reshape([n + 1 for n in sizes])
    same_sizes = sizes[0] == sizes[1]
    back = forth.T if same_sizes else clears(kind, (second, m, first, n), limit).reshape(forth.shape)
    return forth & back


def _clears(kind: Extreme, counts: Counts, limit: float) -> np.ndarray:
    """Return whether the bound that a target takes clears the limit: of small slices the narrower one of two."""
    x1, n1, x2, n2 = counts
    sign = 1 if kind == "gap" else -1
    score = sign * score_bounds(kind, counts, ALPHA) - sign * limit
    is_small = min(n1[0], n2[0]) <= SMALL
    clears = score < 0
    doubtful = np.flatnonzero(is_small | (x1 == 0) | (x1 == n1) | (x2 == 0) | (x2 == n2))
    clears[doubtful] = _melded_clears(kind, tuple(column[doubtful] for column in counts), limit)
    for at in np.flatnonzero(~clears & (score < SCREEN) & is_small):
        clears[at] = sign * exact_bound(kind, counts, at, ALPHA) < sign * limit
    # A ratio of 0 / 0 has no value, and proves nothing.
    return clears & ((x1 > 0) | (x2 > 0)) if kind == "ratio" else clears


def _score_clears(kind: Extreme, counts: Counts, limit: float) -> np.ndarray:
    sign = 1 if kind == "gap" else -1
    return np.asarray(sign * score_bounds(kind, counts, ALPHA) < sign * limit)


def _melded_clears(kind: Extreme, counts: Counts, limit: float) -> np.ndarray:
    melded, sign = (melded_upper, 1) if kind == "gap" else (melded_lower_ratio, -1)
    return np.asarray(sign * melded(*counts, ALPHA) < sign * limit)


RULES: dict[str, Clears] = {"score": _score_clears, "melded alone": _melded_clears, "narrower of both": _clears}
