"""Bounds of pairs of slices: one that holds for all pairs together, and one of each pair alone.

For a gap the first is the lower one, for a ratio the upper one: it proves a limit missed. The other one proves it met.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.proportions.paired import tango_lower
from pytest_crucible.stats.slices.met_bounds import Counts, Extreme, met_bounds
from pytest_crucible.stats.slices.pair_means import bound_mean_pairs
from pytest_crucible.stats.slices.pair_scores import difference_bounds, ratio_bounds
from pytest_crucible.stats.slices.slicing import SliceMeans
from pytest_crucible.stats.studentized_range import studentized_range_critical


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
    """Return gaps of slices of which some are twins of each other: by twin and topic, those of one topic are."""
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
