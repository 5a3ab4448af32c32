"""Bounds of pairs of slices of scores, or of slices with clusters: Gaffke's, for contrasts of two means.

Only the pair that decides needs a narrow bound, and there are 3,540 ordered pairs of 60 slices. That a limit is met is decided by
the pair furthest off: a pair whose slices, each at half of alpha, are nearer keeps that wider bound (Bonferroni). That a limit is
missed is decided by the pair that is proven furthest apart: the bounds hold for all pairs together, and so for the few
that look so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums, ratio_lower_bound
from pytest_crucible.stats.slices.met_bounds import Extreme
from pytest_crucible.stats.slices.slicing import SliceMeans

# Pairs of which a bound that proves a limit missed is computed: those that look furthest apart. All pairs of three slices.
_APART = 6


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A slice against another one."""

    kind: Extreme
    first: UnitSums
    second: UnitSums
    bounds: Range
    shares_units: bool

    def lower_bound(self, alpha: float) -> float:
        if self.kind == "gap":
            return self._contrast(1.0).lower_bound(alpha)
        return ratio_lower_bound(
            self.first, self.second, bounds=self.bounds, shares_units=self.shares_units, alpha=alpha
        )

    def upper_bound(self, alpha: float) -> float:
        lower = self.swap().lower_bound(alpha)
        if self.kind == "gap":
            return -lower
        return 1 / lower if lower else math.inf

    def is_above(self, limit: float, alpha: float) -> bool:
        """Return whether the lower bound is at or above a limit, by one test."""
        pair, null = (self._contrast(1.0), limit) if self.kind == "gap" else (self._contrast(limit), 0.0)
        return pair.p_value(null) <= alpha

    def swap(self) -> _Pair:
        return replace(self, first=self.second, second=self.first)

    def _contrast(self, ratio: float) -> MeanContrast:
        if not ratio:
            return MeanContrast((self.first,), (1.0,), self.bounds, self.shares_units)
        return MeanContrast((self.first, self.second), (1.0, -ratio), self.bounds, self.shares_units)


def bound_mean_pairs(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, shared: float, alpha: float
) -> tuple[Array, Array]:
    """Return the lower and the upper bound of each plus[i] against minus[j]; NaN for values without ends.

    The bounds that prove a limit missed have the error rate `shared`, those that prove it met `alpha`.
    """
    if not all(map(math.isfinite, plus.bounds)):
        return np.full(len(i), math.nan), np.full(len(i), math.nan)
    shares = plus.joint is not None
    pairs = [_Pair(kind, plus.units[a], minus.units[b], plus.bounds, shares) for a, b in zip(i, j, strict=True)]
    wide_lower, wide_upper = _wide_bounds(kind, plus, minus, i, j, alpha / 2)
    if kind == "gap":
        # The upper bound of a gap is minus the lower bound of the pair swapped.
        swapped = [pair.swap() for pair in pairs]
        met, apart = -_bounds_of_furthest(swapped, -wide_upper, alpha), _most_apart(wide_lower)
        missed = np.full(len(i), float(plus.bounds[0] - plus.bounds[1]))
        missed[apart] = [pairs[at].lower_bound(shared) for at in apart]
        return missed, met
    missed, apart = np.full(len(i), math.inf), _most_apart(-wide_upper)
    missed[apart] = [pairs[at].upper_bound(shared) for at in apart]
    return _bounds_of_furthest(pairs, wide_lower, alpha), missed


def _wide_bounds(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, alpha: float
) -> tuple[Array, Array]:
    """Return bounds of each pair from the bounds of both slices alone, at alpha each; infinite where all pairs are computed."""
    if len(i) <= _APART:
        return np.full(len(i), -math.inf), np.full(len(i), math.inf)
    low, high = _single_bounds(plus, i, alpha)
    other_low, other_high = _single_bounds(minus, j, alpha)
    if kind == "gap":
        return low - other_high, high - other_low
    with np.errstate(divide="ignore"):
        return low / other_high, high / other_low


def _single_bounds(means: SliceMeans, numbers: Codes, alpha: float) -> tuple[Array, Array]:
    """Return the lower and the upper bound of the mean of each of these slices."""
    distinct, places = np.unique(numbers, return_inverse=True)
    units = [(means.units[number],) for number in distinct]
    low = np.array([MeanContrast(each, (1.0,), means.bounds, True).lower_bound(alpha) for each in units])
    high = np.array([-MeanContrast(each, (-1.0,), means.bounds, True).lower_bound(alpha) for each in units])
    return low[places], high[places]


def _most_apart(distances: Array) -> Codes:
    return np.argsort(-distances, kind="stable")[:_APART]


def _bounds_of_furthest(pairs: Sequence[_Pair], wide: Array, alpha: float) -> Array:
    """Return lower bounds of pairs; only the smallest one is as narrow as it can be."""
    bounds, smallest = wide.copy(), math.inf
    for at in np.argsort(wide, kind="stable").tolist():
        if wide[at] >= smallest:
            break
        if math.isfinite(smallest) and pairs[at].is_above(smallest, alpha):
            bounds[at] = smallest
            continue
        bounds[at] = max(float(wide[at]), pairs[at].lower_bound(alpha))
        smallest = min(smallest, float(bounds[at]))
    return bounds
