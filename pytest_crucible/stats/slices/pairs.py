"""Bounds of pairs of slices: one that holds for all pairs together, and one of each pair alone.

Bounds of pairs of slices of scores, or of slices with clusters: Gaffke's, for contrasts of two means.
Only the pair that decides needs a narrow bound, and there are 3,540 ordered pairs of 60 slices. That a limit is met is decided by
the pair furthest off: a pair whose slices, each at half of alpha, are nearer keeps that wider bound (Bonferroni). That a limit is
missed is decided by the pair that is proven furthest apart: the bounds hold for all pairs together, and so for the few
that look so.

The bound of each pair of rates that proves a limit met: the upper one of a gap, the lower one of a ratio, at alpha each.
A score bound takes a slice of ten right answers for more than it shows, and errs in more than alpha at some true rates. So slices
of up to SMALL samples have the narrower of two exact bounds: the melded one, and the unconditional one (Buehler 1957; Berger &
Boos 1994), which is mostly narrower, but not where rates are near 0 or 1. By enumeration, the narrower one errs in at most
5.05 % at an alpha of 5 %.

For a gap the first is the lower one, for a ratio the upper one: it proves a limit missed. The other one proves it met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.special import betaincinv, ndtri

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums, ratio_lower_bound
from pytest_crucible.stats.proportions.exact import two_exact_bound
from pytest_crucible.stats.proportions.paired import tango_lower
from pytest_crucible.stats.slices.pair_scores import (
    difference_bounds,
    exact_lower_ratio,
    melded_lower_ratio,
    melded_upper,
    ratio_bounds,
)
from pytest_crucible.stats.slices.slicing import SliceMeans
from pytest_crucible.stats.studentized_range import studentized_range_critical

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


def bound_pairs(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, k: int, shared: float, alpha: float
) -> tuple[Array, Array, Array]:
    """Return the value, the lower and the upper bound of each plus[i] against minus[j].

    The bounds that hold for all pairs of k slices together have the error rate `shared`, the others `alpha` each.
    """
    values = _values(kind, plus.means[i], minus.means[j])
    if plus.is_counted and minus.is_counted:
        counts = plus.totals[i], plus.sizes[i], minus.totals[j], minus.sizes[j]
        return (values, *_rate_bounds(kind, counts, k, shared, alpha))
    if kind == "gap" and plus.matched is not None and minus.matched is not None:
        return _bounds_with_twins(plus, minus, plus.matched[:, i], minus.matched[:, j], i, j, k, shared, alpha)
    # Bonferroni: Tukey's critical value is that of a t test, and the k (k - 1) ordered pairs cost hardly more.
    return (values, *bound_mean_pairs(kind, plus, minus, i, j, shared / (k * (k - 1)), alpha))


def _values(kind: Extreme, first: Array, second: Array) -> Array:
    if kind == "gap":
        return first - second
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 / 0 is not a number: neither slice has a rate to compare.
        return first / second


def _bounds_with_twins(
    plus: SliceMeans,
    minus: SliceMeans,
    first: Array,
    second: Array,
    i: Codes,
    j: Codes,
    k: int,
    shared: float,
    alpha: float,
) -> tuple[Array, Array, Array]:
    """Return bounds of gaps; slices of one topic that differ in the twin alone are paired."""
    in_first, in_second = ~np.isnan(first), ~np.isnan(second)
    are_twins = 2 * (in_first & in_second).sum(axis=0) >= np.maximum(in_first.sum(axis=0), in_second.sum(axis=0))
    rows = np.full((3, len(i)), math.nan)
    if are_twins.any():
        rows[:, are_twins] = _twin_bounds(first[:, are_twins], second[:, are_twins], k, shared, alpha)
    if not are_twins.all():
        others = i[~are_twins], j[~are_twins]
        bounds = bound_mean_pairs("gap", plus, minus, *others, shared / (k * (k - 1)), alpha)
        rows[:, ~are_twins] = plus.means[others[0]] - minus.means[others[1]], *bounds
    values, lower, upper = rows
    return values, lower, upper


def _twin_bounds(first: Array, second: Array, k: int, shared: float, alpha: float) -> tuple[Array, Array, Array]:
    """Return gaps of twins, which are yes or no: Tango's score bounds over the clusters that have both (Tango 1998, SiM 17:891)."""
    joint, alone = studentized_range_critical(shared, k, math.inf) / math.sqrt(2), -float(ndtri(alpha))
    both = ~np.isnan(first) & ~np.isnan(second)
    columns = (both & (first > second)).sum(axis=0), (both & (first < second)).sum(axis=0), both.sum(axis=0)
    rows = [
        ((ups - downs) / n, tango_lower(ups, downs, n, joint), -tango_lower(downs, ups, n, alone))
        if n
        else (math.nan,) * 3
        for ups, downs, n in zip(*(column.tolist() for column in columns), strict=True)
    ]
    values, lower, upper = np.array(rows, dtype=np.float64).T
    return values, lower, upper


def _rate_bounds(kind: Extreme, counts: Counts, k: int, shared: float, alpha: float) -> tuple[Array, Array]:
    """Return the bounds of pairs of rates, from right answers and samples of both slices."""
    joint = studentized_range_critical(shared, k, math.inf) / math.sqrt(2)
    met = met_bounds(kind, counts, alpha)
    if kind == "gap":
        return difference_bounds(*counts, joint, upper=False), met
    return met, ratio_bounds(*counts, joint, upper=True)
