"""Gaffke's one-sided bound for a mean: the values and one more at the end of their range, weighted at random.

The lower bound is the alpha-quantile of the mean of (end, x_1, ..., x_n) under uniform Dirichlet weights; `end` is the lowest
value that exists. Only that side needs an end. For 0 and 1 it is the bound of Clopper and Pearson, and no distribution is
known on which it errs more often than alpha (Gaffke 2005, Mathematical Methods of Statistics 14:451; Learned-Miller & Thomas
2019, arXiv:1905.06208). In the simulations of `tests/truth` it holds at .05, .01 and .005 where the t bound errs in up to 80 %
and the augmented t in up to 9 %.

Clusters get one weight each, on the distance of their total from m. The end is that of a large cluster: sum s^3 / sum s^2 of
their sizes s, the size of an average cluster if all are equal. With the end of an average cluster, or of the cluster of an
average sample, sizes of 1 to 20 err in up to 19 and 9 % at a nominal 5 % where large clusters are lost whole, with this one in 5 to
6 %. The end of the largest cluster errs less, and often proves nothing if a single cluster is large.

The weights are exponential variables divided by their sum, so P(mean <= m) = P(sum_i E_i (x_i - m) <= 0), which is computed
by the saddlepoint approximation of Lugannani & Rice (1980, Advances in Applied Probability 12:475) with a relative error below
2 %, on the cautious side. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Labels, Side, check_side, check_tail, finite
from pytest_crucible.stats.exact_sums import group_totals
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.moments import check_enough
from pytest_crucible.stats.means.units import (
    LARGEST_RATIO,
    Cumulant,
    UnitRows,
    cumulant_of_sums,
    rows_of_clusters,
    rows_of_values,
)
from pytest_crucible.stats.planning.roots import bracketed_root

CumulantAt = Callable[[float], Cumulant]


def sum_directly(distances: Array, times: float | Array) -> CumulantAt:
    """Return the cumulant generating function of the sum of exponential variables with these factors, each `times` times."""

    def at(point: float) -> Cumulant:
        rest = 1 - distances * point
        slopes = distances / rest
        squares = slopes * slopes
        # np.sum, not a product of BLAS, whose threads cost more than they save.
        return Cumulant(
            -float(np.sum(times * np.log(rest))),
            float(np.sum(times * slopes)),
            float(np.sum(times * squares)),
            2 * float(np.sum(times * squares * slopes)),
        )

    return at


# Newton's steps end below this; further digits would be lost in the approximation.
_EXACT = 1e-10
# Ends a search that rounding keeps from converging.
_STEPS = 100
# Below this distance from the centre, the two terms of the approximation cancel all digits.
_CENTRE = 1e-4
_SMALLEST = math.ulp(0.0)
_LARGEST = math.nextafter(1.0, 0.0)


def gaffke_bound(
    values: npt.ArrayLike,
    *,
    end: float,
    alpha: float,
    side: Side,
    clusters: Labels | None = None,
    times: float = 1.0,
) -> float:
    """Return the one-sided bound for the mean of values whose range ends at `end` on that side.

    `times` counts each value that often, to plan samples of another size. Raises ValueError for values beyond the end,
    NotEnoughData below two values or five clusters.

    >>> round(gaffke_bound([1.0] * 48 + [0.0] * 2, end=0.0, alpha=0.05, side="lower"), 3)
    0.879
    """
    check_tail(alpha, side)
    return gaffke_bound_of(_check_rows(values, clusters, end, side, times), end=end, alpha=alpha, side=side)


def gaffke_bound_of(rows: UnitRows, *, end: float, alpha: float, side: Side) -> float:
    """Return the one-sided bound for the mean of units that are checked already."""
    sign = 1.0 if side == "lower" else -1.0
    return sign * _bound(_Units(rows if side == "lower" else rows.mirror(), sign * end), alpha)


def gaffke_ratio_bound(
    totals: Array, sizes: Array, *, end: float, alpha: float, side: Side, times: Array | None = None
) -> float:
    """Return the one-sided bound for a ratio of means: of the units' totals to their sizes, which need not be whole numbers.

    A unit of size 0 has no values. `times` counts each unit that often. Raises NotEnoughData below two units with values.
    """
    check_tail(alpha, side)
    sign, there = 1.0 if side == "lower" else -1.0, sizes > 0
    counts = np.ones(sizes.size) if times is None else times
    if counts[there].sum() < 2:
        check_enough(totals[there])
    return sign * _bound(_Units(_weighted_rows(sign * totals[there], sizes[there], counts[there]), sign * end), alpha)


def _bound(units: _Units, alpha: float) -> float:
    """Return the lower bound."""
    from scipy.special import ndtri

    low, high = units.end, units.rows.high
    if high <= low:
        return low
    # On the normal scale the tail is nearly a straight line of the mean, which takes few steps.
    goal = float(ndtri(alpha))

    def excess(mean: float) -> float:
        # A tail of 1 would be infinite on this scale.
        return float(ndtri(min(units.tail(mean), _LARGEST))) - goal

    near, far = units.bracket_bound(goal)
    inside = low < near < far < high
    at_near, at_far = (excess(near), excess(far)) if inside else (0.0, 0.0)
    if not at_near < 0 < at_far:
        near, far, at_near, at_far = low, high, excess(low), excess(high)
    return bracketed_root(excess, near, at_near, far, at_far, error=_EXACT * (high - low))


def gaffke_p_value(
    values: npt.ArrayLike,
    *,
    null: float,
    end: float,
    side: Side,
    clusters: Labels | None = None,
    times: float | Array = 1.0,
) -> float:
    """Return the smallest alpha at which `gaffke_bound` excludes `null`: for "lower", evidence that the mean is above it.

    `times` counts each value that often, or each value or cluster its own number of times, to plan samples of another size.
    Other arguments and errors as in `gaffke_bound`. Of a difference of pairs of 0 and 1 it is the exact p-value of McNemar's test.
    """
    check_side(side)
    return gaffke_p_value_of(_check_rows(values, clusters, end, side, times), null=null, end=end, side=side)


def gaffke_p_value_of(rows: UnitRows, *, null: float, end: float, side: Side) -> float:
    """Return the p-value of units that are checked already."""
    sign = 1.0 if side == "lower" else -1.0
    return _Units(rows if side == "lower" else rows.mirror(), sign * end).tail(sign * null)


@dataclass(frozen=True, slots=True)
class _Units:
    """The values or clusters that get a weight, with one pseudo-unit at the low end. Upper bounds are mirrored."""

    rows: UnitRows
    end: float

    def bracket_bound(self, goal: float) -> tuple[float, float]:
        """Return two means that enclose the bound in most cases, from the normal approximation."""
        rows, total = self.rows, self.rows.n
        mean = float(np.sum(rows.times * rows.totals / total))
        if rows.core:
            mean += (rows.core.n * rows.core.centre + rows.core.unit * rows.core.sums[1]) / total
        pseudo = self.distance_of_end(mean)
        distances = np.append(np.sqrt(rows.times) * (rows.totals - mean * rows.sizes), pseudo)
        # Scaled, because squares of huge values would be infinite.
        scale = float(np.abs(distances).max())
        squares = float(np.sum((distances / scale) ** 2))
        if rows.core:
            squares += rows.core.moments(mean)[1] / scale**2
        error = scale * math.sqrt(squares) / total
        middle = mean + pseudo / total + goal * error
        return middle - error, middle + error

    def distance_of_end(self, mean: float) -> float:
        """Return how far an unseen unit can lie below a mean: it may be a large one, with all its values at the end."""
        # Values are units of size 1.
        size = 1.0 if self.rows.core else size_of_unseen(self.rows.sizes, self.rows.times)
        return size * (self.end - mean)

    def tail(self, mean: float) -> float:
        """Return P(weighted mean <= mean), never 0."""
        rows, pseudo = self.rows, self.distance_of_end(mean)
        distances = rows.totals - mean * rows.sizes
        if not rows.core:
            return tail_below_zero(distances, pseudo, rows.times)
        if pseudo >= 0:
            return _SMALLEST
        if rows.high <= mean:
            return 1.0
        return _tail_with_core(rows, mean, distances, pseudo)


def tail_below_zero(distances: Array, pseudo: float, times: float | Array = 1.0) -> float:
    """Return P(weighted mean <= 0) of distances from a mean and that of the end, never 0: Gaffke's p-value of that mean."""
    # Without a unit on one side of the mean all weighted means are on the other.
    if pseudo >= 0:
        return _SMALLEST
    if distances.max() <= 0:
        return 1.0
    scale = max(float(np.abs(distances).max()), -pseudo)
    scaled = distances / scale
    poles = 1 / min(float(scaled.min()), pseudo / scale), 1 / float(scaled.max())
    cumulant = _with_pseudo(sum_directly(scaled, times), pseudo / scale)
    return max(_probability_below(cumulant, poles), _SMALLEST)


def _tail_with_core(rows: UnitRows, mean: float, distances: Array, pseudo: float) -> float:
    """Return the tail where most values are known by their sums of powers."""
    core = rows.core
    assert core is not None, "there are more values than rows"
    reach = core.reach + abs(core.centre - mean)
    scale = max(float(np.abs(distances).max()), reach, -pseudo)
    scaled, sums = distances / scale, core.sums_around(mean, scale)
    direct = sum_directly(scaled, rows.times)

    def cumulant(point: float) -> Cumulant:
        ours, theirs = direct(point), cumulant_of_sums(sums, point)
        return Cumulant(*(first + second for first, second in zip(ours, theirs, strict=True)))

    whole, farthest = _with_pseudo(cumulant, pseudo / scale), LARGEST_RATIO * scale / reach
    lowest, highest = min(float(scaled.min()), pseudo / scale), float(scaled.max())
    low, high = max(-farthest, 1 / lowest), min(farthest, 1 / highest if highest > 0 else math.inf)
    # Where the series ends, Chernoff's bound is below 1e-50, and takes the place of a tail that no verdict can tell from it.
    if low == -farthest and (at := whole(low)).first >= 0:
        return max(math.exp(at.value), _SMALLEST)
    if high == farthest and whole(high).first <= 0:
        return 1.0
    return max(_probability_below(whole, (low, high)), _SMALLEST)


def size_of_unseen(sizes: Array, times: float | Array = 1.0) -> float:
    """Return the size of the unit that is added at the end: that of a large one, as large units may be lost whole."""
    return float((times * sizes**3).sum() / (times * sizes**2).sum())


def _check_rows(
    values: npt.ArrayLike, clusters: Labels | None, end: float, side: Side, times: float | Array
) -> UnitRows:
    """Return the units of values that lie within the end."""
    codes = None
    if clusters is None:
        array = check_enough(finite(values))
    else:
        array, codes, _ = check_clustered(values, clusters)
    is_within = array.min() >= end if side == "lower" else array.max() <= end
    if not math.isfinite(end) or not is_within:
        raise ValueError(f"the values must have an end on that side, and lie within it, not {end!r}")
    if np.ndim(times):
        totals, sizes = (array, np.ones(array.size)) if codes is None else group_totals(codes, array)
        return _weighted_rows(totals, sizes, np.asarray(times))
    rows = rows_of_values(array) if codes is None else rows_of_clusters(array, codes)
    return rows.repeat(float(times))


def _weighted_rows(totals: Array, sizes: Array, times: Array) -> UnitRows:
    """Return units that count as often as they are said to, as they are."""
    means = totals / sizes
    low, high = float(means.min()), float(means.max())
    return UnitRows(totals=totals, sizes=sizes, times=times, low=low, high=high, largest=max(abs(low), abs(high)))


def _with_pseudo(cumulant: CumulantAt, pseudo: float) -> CumulantAt:
    """Return the function with one more variable, that of the end."""

    def at(point: float) -> Cumulant:
        shares, rest = cumulant(point), 1 - pseudo * point
        slope = pseudo / rest
        return Cumulant(
            shares.value - math.log(rest), shares.first + slope, shares.second + slope**2, shares.third + 2 * slope**3
        )

    return at


def _probability_below(cumulant: CumulantAt, poles: tuple[float, float]) -> float:
    """Return P(sum of E_i c_i <= 0) for exponential E_i; there are distances above 0, and the pseudo one is below."""
    from scipy.special import ndtr

    point, at = _saddlepoint(cumulant, poles)
    root = math.copysign(math.sqrt(max(-2 * at.value, 0.0)), point)
    if abs(root) < _CENTRE:
        return 0.5 + at.third / (6 * math.sqrt(2 * math.pi * at.second) * at.second)
    density = math.exp(-(root**2) / 2) / math.sqrt(2 * math.pi)
    correction = density * (1 / root - 1 / (point * math.sqrt(at.second)))
    return min(1.0, float(ndtr(root)) + float(correction))


def _saddlepoint(cumulant: CumulantAt, poles: tuple[float, float]) -> tuple[float, Cumulant]:
    """Return the zero of the cumulant's derivative, which rises from minus to plus infinity between two poles."""
    low, high = poles
    point = 0.0
    for _ in range(_STEPS):
        at = cumulant(point)
        low, high = (low, point) if at.first > 0 else (point, high)
        newton = point - at.first / at.second
        # A step beyond a pole is replaced by a bisection.
        following = newton if low < newton < high else (low + high) / 2
        if abs(following - point) <= _EXACT * (high - low + abs(point)):
            return following, cumulant(following)
        point = following
    return point, cumulant(point)
