"""Bounds of pairs of slices: one that holds for all pairs together, and one of each pair alone.

For a gap the first is the lower one, for a ratio the upper one: it proves a limit missed. The other one proves it met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtri, stdtrit

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.groups.studentized import studentized_range_critical
from pytest_crucible.stats.proportions.paired import tango_lower
from pytest_crucible.stats.slices.means import pair_errors
from pytest_crucible.stats.slices.met_bounds import Counts, Extreme, met_bounds
from pytest_crucible.stats.slices.pair_scores import bisect, difference_bounds, ratio_bounds
from pytest_crucible.stats.slices.slicing import SliceMeans

# Degrees of freedom at which Tukey's critical value is computed; between them its logarithm is a spline in 1 / dof. No pair of
# slices has fewer than 1: below that the curve would be wrong.
_GRID = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 17.0, 24.0, 40.0, 80.0, 200.0, math.inf)
# Up to this many pairs each has a critical value of its own: those of three slices.
_EXACT_PAIRS = 6


def bound_pairs(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, k: int, shared: float, alpha: float
) -> tuple[Array, Array, Array]:
    """Return the value, the lower and the upper bound of each plus[i] against minus[j].

    The bounds that hold for all pairs of k slices together have the error rate `shared`, the others `alpha` each.
    """
    if kind == "gap" and plus.matched is not None and minus.matched is not None:
        return _bounds_with_twins(plus, minus, plus.matched[:, i], minus.matched[:, j], i, j, k, shared, alpha)
    values = _values(kind, plus.means[i], minus.means[j])
    if plus.is_counted and minus.is_counted:
        counts = plus.totals[i], plus.sizes[i], minus.totals[j], minus.sizes[j]
        return (values, *_rate_bounds(kind, counts, k, shared, alpha))
    return (values, *_mean_bounds(kind, plus, minus, i, j, k, shared, alpha))


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
    rows = np.array([plus.means[i] - minus.means[j], *_mean_bounds("gap", plus, minus, i, j, k, shared, alpha)])
    if are_twins.any():
        rows[:, are_twins] = _twin_bounds(first[:, are_twins], second[:, are_twins], k, shared, alpha)
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


def _mean_bounds(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, k: int, shared: float, alpha: float
) -> tuple[Array, Array]:
    errors, dof = pair_errors(plus, minus, i, j)
    errors = np.where(errors > 0, errors, math.nan)
    strong = critical_values(shared, k, dof)
    weak = np.asarray(stdtrit(dof, 1 - alpha), dtype=np.float64)
    if kind == "gap":
        centre = plus.centres[i] - minus.centres[j]
        lower, upper = centre - strong * errors, centre + weak * errors
        if plus.careful is None or minus.careful is None:
            return lower, upper
        centre = plus.careful[0][i] - minus.careful[0][j]
        errors = np.hypot(plus.careful[1][i], minus.careful[1][j])
        return np.fmin(lower, centre - strong * errors), np.fmax(upper, centre + weak * errors)
    return _ratio_bounds(plus, minus, i, j, weak, strong, errors)


def critical_values(alpha: float, k: int, dof: Array) -> Array:
    """Return q(alpha; k, dof) / sqrt(2) for many degrees of freedom; above 6 of them within 1e-4 of it, from a curve.

    >>> critical_values(0.05, 2, np.array([np.inf])).round(6)
    array([1.959964])
    """
    if k == 2:
        return np.asarray(stdtrit(dof, 1 - alpha / 2), dtype=np.float64)
    if len(dof) > _EXACT_PAIRS:
        return np.asarray(np.exp(_log_critical_curve(alpha, k)(-1 / dof)) / math.sqrt(2))
    # A slice of one group has no degrees of freedom.
    exact = [math.nan if math.isnan(each) else studentized_range_critical(alpha, k, each) for each in dof.tolist()]
    return np.array(exact) / math.sqrt(2)


@lru_cache(maxsize=64)
def _log_critical_curve(alpha: float, k: int) -> Callable[[Array], Array]:
    """Return the logarithm of the critical value as a function of -1 / dof: a cubic spline, for a value takes milliseconds."""
    # It is imported by few sessions.
    from scipy.interpolate import CubicSpline

    values = [studentized_range_critical(alpha, k, each) for each in _GRID]
    curve: Callable[[Array], Array] = CubicSpline([-1 / each for each in _GRID], np.log(values))
    return curve


def _ratio_bounds(
    plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, weak: Array, strong: Array, errors: Array
) -> tuple[Array, Array]:
    """Return Fieller's bounds of ratios of means: where the studentised plus - ratio * minus passes the critical value."""
    above, below = plus.centres[i], minus.centres[j]
    squares, cross = _variances(plus, minus, i, j)

    def statistic(share: Array) -> Array:
        ratio = share / (1 - share)
        variance = squares[0] - 2 * ratio * cross + ratio**2 * squares[1]
        return (above - ratio * below) / np.sqrt(np.maximum(variance, 1e-300))

    ends = np.zeros_like(above), np.full_like(above, 1 - 1e-12)
    low, high = (bisect(statistic, level, *ends) for level in (weak, -strong))
    is_finite = np.isfinite(errors) & (below > 0)
    with np.errstate(divide="ignore"):
        lower, upper = low / (1 - low), np.where(high < ends[1] - 1e-9, high / (1 - high), math.inf)
    return np.where(is_finite, lower, math.nan), np.where(is_finite, upper, math.nan)


def _variances(plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes) -> tuple[tuple[Array, Array], Array]:
    if plus.contributions is None or minus.contributions is None:
        return (plus.errors[i] ** 2, minus.errors[j] ** 2), np.zeros(len(i))
    cross = (plus.contributions.T @ minus.contributions)[i, j]
    squares = [(side.contributions**2).sum(axis=0) for side in (plus, minus) if side.contributions is not None]
    return (squares[0][i], squares[1][j]), cross
