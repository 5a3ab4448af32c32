"""The largest gap, the smallest ratio and the worst mean of k slices: estimates of extremes, with bounds that hold for them.

The observed gap is biased upwards: with ten slices of 50 samples that are all right in 80 %, it is .17 on average. So the bound
that proves a limit missed holds for all pairs at once: the skewness-corrected score bound at Tukey's critical value
q(alpha; k, inf) / sqrt(2) (Games & Howell 1976 for scores, with Welch's or CR2's degrees of freedom). The bound that proves it met
is the one-sided bound of every pair: all of them must clear the limit, which needs no correction (Berger 1982, Technometrics
24:295). Bounds may lie beyond 0, or beyond a ratio of 1: then no pair of slices is proven to differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.groups.studentized import studentized_range_critical
from pytest_crucible.stats.proportions.paired import tango_lower
from pytest_crucible.stats.slices.flat_pairs import melded_lower_ratio, melded_upper
from pytest_crucible.stats.slices.means import SliceMeans, pair_errors
from pytest_crucible.stats.slices.pair_scores import bisect, difference_bounds, ratio_bounds

Extreme = Literal["gap", "ratio"]
SCORE = "score, simultaneous over pairs"
WELCH = "games-howell"
CLUSTERED = "cr2, simultaneous over pairs"
MATCHED = "tango, simultaneous over pairs"
# Degrees of freedom at which Tukey's critical value is computed; between them it is interpolated in 1 / dof.
_GRID = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 17.0, 24.0, 40.0, 80.0, 200.0, math.inf)
# Up to this many pairs each has a critical value of its own.
_EXACT_PAIRS = 45
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Pair:
    """A column and two slices of it, by number: the higher one first for a gap, the lower one for a ratio."""

    column: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremeBounds:
    """A gap or a ratio with its one-sided bounds, and the pair of slices that each of the three is of."""

    value: float | None
    lower: float | None
    """None where a slice without a rate, or without a known error, could be anything."""
    upper: float | None
    pair: Pair | None = None
    lower_pair: Pair | None = None
    upper_pair: Pair | None = None
    method: str = "none"
    needed: float | None = None
    """How many times as many samples would decide at this estimate, with 80 % power; None where nothing would."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """All ordered pairs of slices of all columns, with the value and both bounds of each."""

    pairs: Sequence[Pair]
    values: Array
    lower: Array
    upper: Array


def bound_extreme(
    kind: Extreme,
    plus: Sequence[SliceMeans],
    minus: Sequence[SliceMeans],
    *,
    alpha: float,
    limit: float | None = None,
) -> ExtremeBounds:
    """Return the extreme over all pairs of slices, and over all columns, with bounds at alpha each.

    Each pair is plus[first] against minus[second]: the same means, or those with the lost samples at opposite ends. The errors of
    several columns share alpha. With `limit` it also says how many times as many samples would decide.
    """
    tables = [
        _table(kind, number, *column, alpha / len(plus), alpha)
        for number, column in enumerate(zip(plus, minus, strict=True))
    ]
    values = np.concatenate([table.values for table in tables])
    if not (np.isfinite(values) | np.isposinf(values)).any():
        return ExtremeBounds(value=None, lower=None, upper=None)
    pairs = list(itertools.chain.from_iterable(table.pairs for table in tables))
    lower = np.concatenate([table.lower for table in tables])
    upper = np.concatenate([table.upper for table in tables])
    return _of_pairs(kind, pairs, values, lower, upper, _method(plus), _needed(kind, values, lower, upper, limit))


def _of_pairs(
    kind: Extreme, pairs: list[Pair], values: Array, lower: Array, upper: Array, method: str, needed: float | None
) -> ExtremeBounds:
    # The bound that proves a limit met must hold for every pair; the other one may leave out a pair that has none.
    if kind == "gap":
        best, strong, weak = np.nanargmax(values), _argmax(lower), _argmax(upper)
        ends = _at(lower, strong), None if np.isnan(upper).any() else _at(upper, weak)
        between = strong, weak
    else:
        best, strong, weak = np.nanargmin(values), _argmax(-upper), _argmax(-lower)
        ends = None if np.isnan(lower).any() else _at(lower, weak), _at(upper, strong)
        between = weak, strong
    named = [None if at is None else pairs[at] for at in between]
    return ExtremeBounds(
        value=float(values[best]),
        lower=ends[0],
        upper=ends[1],
        pair=pairs[int(best)],
        lower_pair=named[0],
        upper_pair=named[1],
        method=method,
        needed=needed,
    )


def _argmax(values: Array) -> int | None:
    return None if np.isnan(values).all() else int(np.nanargmax(values))


def _at(values: Array, at: int | None) -> float | None:
    return None if at is None else float(values[at])


def _table(kind: Extreme, column: int, plus: SliceMeans, minus: SliceMeans, shared: float, alpha: float) -> _Pairs:
    """Return all ordered pairs of a column: simultaneous bounds at `shared`, one-sided bounds at `alpha`."""
    k = len(plus.sizes)
    first, second = (np.array(side, dtype=np.intp) for side in zip(*itertools.permutations(range(k), 2), strict=True))
    pairs = [Pair(column, int(i), int(j)) for i, j in zip(first, second, strict=True)]
    known = plus.has_rate[first] & minus.has_rate[second]
    values, lower, upper = (np.full(len(pairs), math.nan) for _ in range(3))
    inside = first[known], second[known]
    if known.any():
        rated = int(plus.has_rate.sum())
        if kind == "gap" and plus.matched is not None and minus.matched is not None:
            return _matched_pairs(pairs, plus.matched, minus.matched, rated, shared, alpha)
        values[known] = _values(kind, plus.means[inside[0]], minus.means[inside[1]])
        lower[known], upper[known] = _bounds(kind, plus, minus, *inside, rated, shared, alpha)
    return _Pairs(pairs, values, lower, upper)


def _matched_pairs(pairs: Sequence[Pair], plus: Array, minus: Array, k: int, shared: float, alpha: float) -> _Pairs:
    """Return gaps of twins, which are yes or no: Tango's score bounds over the clusters that have both (Tango 1998, SiM 17:891)."""
    there = ~np.isnan(plus), ~np.isnan(minus)
    right = np.nan_to_num(plus), np.nan_to_num(minus)
    gained, lost = right[0].T @ (there[1] - right[1]), (there[0] - right[0]).T @ right[1]
    both = there[0].T.astype(np.float64) @ there[1]
    strong, weak = studentized_range_critical(shared, k, math.inf) / math.sqrt(2), -float(ndtri(alpha))
    rows = []
    for pair in pairs:
        ups, downs, n = (round(float(table[pair.first, pair.second])) for table in (gained, lost, both))
        ends = (tango_lower(ups, downs, n, strong), -tango_lower(downs, ups, n, weak)) if n else (math.nan, math.nan)
        rows.append(((ups - downs) / n if n else math.nan, *ends))
    return _Pairs(pairs, *np.array(rows).T)


def _values(kind: Extreme, first: Array, second: Array) -> Array:
    if kind == "gap":
        return first - second
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 / 0 is not a number: neither slice has a rate to compare.
        return first / second


def _bounds(
    kind: Extreme, plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes, k: int, shared: float, alpha: float
) -> tuple[Array, Array]:
    if plus.is_counted and minus.is_counted:
        counts = plus.totals[i], plus.sizes[i], minus.totals[j], minus.sizes[j]
        joint, alone = studentized_range_critical(shared, k, math.inf) / math.sqrt(2), -float(ndtri(alpha))
        if kind == "gap":
            upper = _widen(np.maximum, difference_bounds(*counts, alone, upper=True), melded_upper, counts, alpha)
            return difference_bounds(*counts, joint, upper=False), upper
        lower = _widen(np.minimum, ratio_bounds(*counts, alone, upper=False), melded_lower_ratio, counts, alpha)
        return lower, ratio_bounds(*counts, joint, upper=True)
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


def _widen(
    wider: Callable[[Array, Array], Array],
    bounds: Array,
    melded: Callable[..., Array],
    counts: Sequence[Array],
    alpha: float,
) -> Array:
    """Return the bounds, which prove a limit met, no narrower than melded ones where a slice is all right or all wrong."""
    x1, n1, x2, n2 = counts
    flat = (x1 == 0) | (x1 == n1) | (x2 == 0) | (x2 == n2)
    if flat.any():
        bounds = bounds.copy()
        bounds[flat] = wider(bounds[flat], melded(*(each[flat] for each in counts), alpha))
    return bounds


def critical_values(alpha: float, k: int, dof: Array) -> Array:
    """Return q(alpha; k, dof) / sqrt(2) for many degrees of freedom; above 45 of them interpolated in 1 / dof.

    >>> critical_values(0.05, 2, np.array([np.inf])).round(6)
    array([1.959964])
    """
    if len(dof) <= _EXACT_PAIRS:
        exact = [studentized_range_critical(alpha, k, float(each)) for each in dof]
        return np.array(exact) / math.sqrt(2)
    grid = np.array([studentized_range_critical(alpha, k, each) for each in _GRID])
    return np.asarray(np.interp(-1 / dof, [-1 / each for each in _GRID], grid) / math.sqrt(2))


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
    known = np.isfinite(errors) & (below > 0)
    with np.errstate(divide="ignore"):
        lower, upper = low / (1 - low), np.where(high < ends[1] - 1e-9, high / (1 - high), math.inf)
    return np.where(known, lower, math.nan), np.where(known, upper, math.nan)


def _variances(plus: SliceMeans, minus: SliceMeans, i: Codes, j: Codes) -> tuple[tuple[Array, Array], Array]:
    if plus.contributions is None or minus.contributions is None:
        return (plus.errors[i] ** 2, minus.errors[j] ** 2), np.zeros(len(i))
    cross = (plus.contributions.T @ minus.contributions)[i, j]
    squares = [(side.contributions**2).sum(axis=0) for side in (plus, minus) if side.contributions is not None]
    return (squares[0][i], squares[1][j]), cross


def _method(columns: Sequence[SliceMeans]) -> str:
    if columns[0].contributions is not None:
        return CLUSTERED if columns[0].matched is None else MATCHED
    return SCORE if all(column.is_counted for column in columns) else WELCH


def _needed(kind: Extreme, values: Array, lower: Array, upper: Array, limit: float | None) -> float | None:
    """Return how many times as many samples would decide: distances to a bound shrink with the root of the samples."""
    if limit is None or not np.isfinite(values).all() or np.isnan(lower).any() or np.isnan(upper).any():
        return None
    sign = 1.0 if kind == "gap" else -1.0
    strong, weak = (lower, upper) if kind == "gap" else (upper, lower)
    # Beyond the bound's own distance, power of 80 % needs that of 0.84 standard errors more.
    power = 1 + float(ndtri(_POWER)) / -float(ndtri(0.05))
    room = sign * (limit - values)
    if (room > 0).all():
        return float(np.max((np.abs(weak - values) * power / room) ** 2))
    is_beyond = room < 0
    if not is_beyond.any():
        return None
    beyond = (np.abs(strong - values)[is_beyond] * power / room[is_beyond]) ** 2
    return float(beyond.min()) if np.isfinite(beyond).any() else None
