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
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, Side, check_side, check_tail, cluster_totals, finite
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.moments import check_enough
from pytest_crucible.stats.planning.roots import bracketed_root

# The last term is 0.25^24 = 4e-15 of the first.
TERMS = 24
LARGEST_RATIO = 0.25
# Fewer values are as fast without a series.
MANY = 4_000


class Cumulant(NamedTuple):
    """K(t) and its first three derivatives."""

    value: float
    first: float
    second: float
    third: float


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


class PowerSums:
    """Sums of powers of values around their mean, from which those around every other mean follow."""

    def __init__(self, values: Array) -> None:
        self.mean = float(values.mean())
        self.reach = float(np.abs(values - self.mean).max())
        centred, power = values - self.mean, np.ones(values.size)
        sums = [float(values.size)]
        for _ in range(TERMS):
            power = power * centred
            sums.append(float(power.sum()))
        self._sums = sums

    def sum_by_series(self, mean: float, scale: float, direct: CumulantAt) -> CumulantAt:
        """Return the function for distances (values - mean) / scale; where the series converges too slowly, it is `direct`."""
        shift, largest = self.mean - mean, (self.reach + abs(self.mean - mean)) / scale
        powers = [shift**k for k in range(TERMS + 1)]
        sums = [
            sum(math.comb(k, j) * self._sums[j] * powers[k - j] for j in range(k + 1)) / scale**k
            for k in range(TERMS + 1)
        ]

        def at(point: float) -> Cumulant:
            if abs(point) * largest > LARGEST_RATIO:
                return direct(point)
            terms = [point**k for k in range(TERMS + 1)]
            return Cumulant(
                sum(sums[k] * terms[k] / k for k in range(1, TERMS + 1)),
                sum(sums[k] * terms[k - 1] for k in range(1, TERMS + 1)),
                sum((k - 1) * sums[k] * terms[k - 2] for k in range(2, TERMS + 1)),
                sum((k - 1) * (k - 2) * sums[k] * terms[k - 3] for k in range(3, TERMS + 1)),
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
    sign = 1.0 if side == "lower" else -1.0
    return sign * _bound(_units(values, clusters, end, sign, times), alpha)


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
    units = _Units(
        totals=sign * totals[there], sizes=sizes[there], end=sign * end, times=counts[there], power_sums=None
    )
    return sign * _bound(units, alpha)


def _bound(units: _Units, alpha: float) -> float:
    """Return the lower bound."""
    from scipy.special import ndtri

    low, high = units.end, float((units.totals / units.sizes).max())
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
    sign = 1.0 if side == "lower" else -1.0
    return _units(values, clusters, end, sign, times).tail(sign * null)


@dataclass(frozen=True, slots=True)
class _Units:
    """The values or clusters that get a weight, with one pseudo-unit at the low end. Upper bounds are mirrored."""

    totals: Array
    sizes: Array
    end: float
    times: float | Array
    power_sums: PowerSums | None

    def bracket_bound(self, goal: float) -> tuple[float, float]:
        """Return two means that enclose the bound in most cases, from the normal approximation."""
        total = float((self.times * self.sizes).sum())
        mean = float((self.times * self.totals / total).sum())
        pseudo = self.distance_of_end(mean)
        distances = np.append(np.sqrt(self.times) * (self.totals - mean * self.sizes), pseudo)
        # Scaled, because squares of huge values would be infinite.
        scale = float(np.abs(distances).max())
        error = scale * math.sqrt(float(np.sum((distances / scale) ** 2))) / total
        middle = mean + pseudo / total + goal * error
        return middle - error, middle + error

    def distance_of_end(self, mean: float) -> float:
        """Return how far an unseen unit can lie below a mean: it may be a large one, with all its values at the end."""
        return size_of_unseen(self.sizes, self.times) * (self.end - mean)

    def tail(self, mean: float) -> float:
        """Return P(weighted mean <= mean), never 0."""
        series = None if self.power_sums is None else partial(self.power_sums.sum_by_series, mean)
        return tail_below_zero(self.totals - mean * self.sizes, self.distance_of_end(mean), self.times, series)


def size_of_unseen(sizes: Array, times: float | Array = 1.0) -> float:
    """Return the size of the unit that is added at the end: that of a large one, as large units may be lost whole."""
    return float((times * sizes**3).sum() / (times * sizes**2).sum())


def tail_below_zero(
    distances: Array,
    pseudo: float,
    times: float | Array = 1.0,
    series: Callable[[float, CumulantAt], CumulantAt] | None = None,
) -> float:
    """Return P(weighted mean <= 0) of distances from a mean and that of the end, never 0: Gaffke's p-value of that mean.

    `series` may replace the sum over many distances, of which it gets the scale.
    """
    # Without a unit on one side of the mean all weighted means are on the other.
    if pseudo >= 0:
        return _SMALLEST
    if distances.max() <= 0:
        return 1.0
    scale = max(float(np.abs(distances).max()), -pseudo)
    scaled = distances / scale
    poles = 1 / min(float(scaled.min()), pseudo / scale), 1 / float(scaled.max())
    cumulant = sum_directly(scaled, times)
    if series is not None:
        cumulant = series(scale, cumulant)
    return max(_probability_below(_with_pseudo(cumulant, pseudo / scale), poles), _SMALLEST)


def _units(values: npt.ArrayLike, clusters: Labels | None, end: float, sign: float, times: float | Array) -> _Units:
    if clusters is None:
        array = check_enough(finite(values))
        totals, sizes = array, np.ones(array.size)
    else:
        array, codes, _ = check_clustered(values, clusters)
        totals, sizes = cluster_totals(codes, array), np.bincount(codes).astype(np.float64)
    low = sign * end
    if not math.isfinite(low) or (sign * array).min() < low:
        raise ValueError(f"the values must have an end on that side, and lie within it, not {end!r}")
    is_long = clusters is None and array.size > MANY and np.ndim(times) == 0 and times == 1.0
    power_sums = PowerSums(sign * array) if is_long else None
    return _Units(totals=sign * totals, sizes=sizes, end=low, times=times, power_sums=power_sums)


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
