"""One-sided bounds for a ratio of means of pairs, from Gaffke's bound for the mean of x - r y.

mean(x) / mean(y) is above r if the mean of x - r y is above 0 (Fieller 1954, JRSS B 16:175). For values in [low, high] it lies in
[low - r high, high - r low]. So Gaffke's test of that mean (`means.gaffke`) tests the ratio, and the ratios that it does not reject
end in the bound. Amounts are at least 0, so that a larger r moves every x - r y and its end down: the p-value rises with r, and the
ratios that are rejected have no gaps. Nothing holds without an upper end: one unseen value could be the larger part of a total.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    Array,
    Labels,
    Range,
    Side,
    check_side,
    check_tail,
    is_finite_range,
    paired_arrays,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.gaffke import gaffke_p_value, gaffke_ratio_bound, size_of_unseen, tail_below_zero
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import bracketed_root

# Precision of the logarithm of a bound: reports show three digits.
_EXACT = 1e-8
# Beyond this logarithm, on either side, a bound is infinite or 0.
_FARTHEST = 60.0
# A tail of 1 or 0 would be infinite on the normal scale.
_LARGEST = math.nextafter(1.0, 0.0)
_SMALLEST = math.ulp(0.0)


def mean_ratio_p_value(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    null: float,
    bounds: Range,
    side: Side,
    clusters: Labels | None = None,
    denominator_bounds: Range | None = None,
) -> float:
    """Return the smallest alpha at which `mean_ratio_bound` excludes `null`: for "lower", evidence of a larger ratio.

    `denominator_bounds` are those of the denominator, if they differ.

    Raises ValueError for amounts below 0 or out of bounds and for infinite bounds, NotEnoughData below two pairs or five clusters.

    >>> round(mean_ratio_p_value([3.0] * 30, [2.0] * 30, null=1.0, bounds=(1, 4), side="lower"), 4)
    0.0002
    """
    check_side(side)
    return _check_pairs(numerator, denominator, (bounds, denominator_bounds or bounds), clusters).p_value(null, side)


def mean_ratio_bound(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    clusters: Labels | None = None,
    denominator_bounds: Range | None = None,
) -> float:
    """Return the one-sided bound for mean(numerator) / mean(denominator); 0, or infinite, if no ratio is excluded.

    Arguments and errors as in `mean_ratio_p_value`.

    >>> round(mean_ratio_bound([3.0] * 30, [2.0] * 30, bounds=(1, 4), alpha=0.05, side="lower"), 3)
    1.282
    """
    check_tail(alpha, side)
    return _check_pairs(numerator, denominator, (bounds, denominator_bounds or bounds), clusters).bound(alpha, side)


def _check_pairs(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, bounds: tuple[Range, Range], clusters: Labels | None
) -> _Pairs:
    first, second = paired_arrays(numerator, denominator, names=("numerator", "denominator"))
    for ends in bounds:
        if not is_finite_range(ends) or ends[0] < 0:
            raise ValueError(
                f"a ratio of means has bounds only where the values have finite ones of at least 0, not {ends!r}"
            )
    return _Pairs(first, second, *bounds, clusters)


@dataclass(frozen=True, slots=True)
class _Pairs:
    numerator: Array
    denominator: Array
    bounds: Range
    denominator_bounds: Range
    clusters: Labels | None

    def p_value(self, ratio: float, side: Side) -> float:
        (low, high), (least, most) = self.bounds, self.denominator_bounds
        end = low - ratio * most if side == "lower" else high - ratio * least
        values = self.numerator - ratio * self.denominator
        return gaffke_p_value(values, null=0.0, end=end, side=side, clusters=self.clusters)

    def bound(self, alpha: float, side: Side) -> float:
        from scipy.special import ndtri

        goal, sign = float(ndtri(alpha)), 1.0 if side == "lower" else -1.0
        means = float(self.numerator.mean()), float(self.denominator.mean())
        centre = math.log(means[0] / means[1]) if min(means) > 0 else 0.0

        def excess(distance: float) -> float:
            """Return how far the ratio at this distance below (upper bound: above) the estimate is from being rejected."""
            p_value = self.p_value(math.exp(centre - sign * distance), side)
            return goal - float(ndtri(min(max(p_value, _SMALLEST), _LARGEST)))

        near, at_near, far = 0.0, excess(0.0), 0.1
        if at_near >= 0:
            return math.exp(centre)
        while (at_far := excess(far)) < 0:
            if far > _FARTHEST:
                return 0.0 if side == "lower" else math.inf
            near, at_near, far = far, at_far, 2 * far
        return math.exp(centre - sign * bracketed_root(excess, near, at_near, far, at_far, error=_EXACT))


# The part of alpha that the confidence set of the nuisance may miss: a larger one costs power, a smaller one widens the set.
_NUISANCE = 0.05
_SIDES: tuple[Side, Side] = ("lower", "upper")
# A p-value above it is no evidence, and is returned as it.
_FIRST = 0.5
_STEPS, _CLOSE = 40, 1e-4
# No p-value is computed below it: no family of claims needs one, and the search would leave the range of the approximation.
_TINY = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class RatioArm:
    """One arm: the units' totals and sizes, one entry a unit, in the same order in both arms."""

    totals: Array
    sizes: Array

    @property
    def ratio(self) -> float:
        """The ratio of means; NaN without values."""
        total = float(self.sizes.sum())
        return float(self.totals.sum()) / total if total else math.nan

    def influence(self, ratio: float) -> Array:
        """Return each unit's part of the ratio's distance from `ratio`, times the number of units."""
        return np.asarray((self.totals - ratio * self.sizes) / self.sizes.mean())

    def reach(self, distance: float) -> float:
        """Return the influence of an unseen unit whose values are that far away."""
        return size_of_unseen(self.sizes) * distance / float(self.sizes.mean())


def ratio_difference_bound(
    candidate: RatioArm, baseline: RatioArm, *, bounds: Range, alpha: float, side: Side
) -> float:
    """Return the one-sided bound for the candidate's ratio minus the baseline's; `bounds` are those of the values.

    Raises NotEnoughData where an arm has fewer than two units with values.

    >>> values, sizes = np.array([1.0] * 45 + [0.0] * 55), np.array([1.0] * 50 + [0.0] * 50)
    >>> arms = RatioArm(values, sizes), RatioArm(values[::-1], sizes[::-1])
    >>> round(ratio_difference_bound(*arms, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 3)
    -0.132
    """
    from scipy.special import ndtri

    check_tail(alpha, side)
    if side == "upper":
        return -ratio_difference_bound(baseline, candidate, bounds=bounds, alpha=alpha, side="lower")
    problem = _Problem(candidate, baseline, bounds)
    ends, goal = problem.nuisance(alpha), float(ndtri(alpha * (1 - _NUISANCE)))

    def excess(difference: float) -> float:
        return float(ndtri(min(max(problem.largest_tail(difference, ends), _TINY), _LARGEST))) - goal

    span = bounds[1] - bounds[0]
    far = candidate.ratio - baseline.ratio
    at_far = excess(far)
    if at_far <= 0:
        return far
    near, at_near = problem.bracket(far, goal), 0.0
    if near <= -span or (at_near := excess(near)) >= 0:
        near = -span
        at_near = excess(near)
        if at_near >= 0:
            return -span
    return bracketed_root(excess, near, at_near, far, at_far, error=_EXACT * span)


def ratio_difference_p_value(
    candidate: RatioArm, baseline: RatioArm, *, null: float, bounds: Range, side: Side
) -> float:
    """Return the smallest alpha at which `ratio_difference_bound` excludes `null`: for "lower", evidence of a larger difference.

    Evidence of no use is 0.5 or 1. Errors as there.
    """
    check_side(side)
    if side == "upper":
        return ratio_difference_p_value(baseline, candidate, null=-null, bounds=bounds, side="lower")
    if candidate.ratio - baseline.ratio <= null:
        return 1.0
    problem, alpha = _Problem(candidate, baseline, bounds), _FIRST
    for _ in range(_STEPS):
        # The confidence set is that of the alpha which the tail then needs; it changes little with it.
        following = min(max(problem.largest_tail(null, problem.nuisance(alpha)) / (1 - _NUISANCE), _TINY), _FIRST)
        if abs(following - alpha) <= _CLOSE * alpha:
            return max(following, alpha)
        alpha = following
    return alpha


class _Problem:
    """Two arms, whose tails are asked for at several differences and nuisances."""

    def __init__(self, candidate: RatioArm, baseline: RatioArm, bounds: Range) -> None:
        for arm in (candidate, baseline):
            if (count := int((arm.sizes > 0).sum())) < 2:
                raise NotEnoughData(f"{quantity(count, 'unit')} with values in an arm: a difference needs at least 2")
        self._rows, self._times = _distinct(candidate.totals, candidate.sizes, baseline.totals, baseline.sizes)
        self._candidate, self._baseline, self._bounds = candidate, baseline, bounds
        self._distinct = [_distinct(arm.totals, arm.sizes) for arm in (candidate, baseline)]

    def nuisance(self, alpha: float) -> tuple[Range, Range]:
        """Return confidence sets of both ratios, which miss one of them with a probability of at most _NUISANCE alpha."""
        share = max(alpha * _NUISANCE / 4, _TINY)
        ours, theirs = (self._confidence_set(number, share) for number in (0, 1))
        return ours, theirs

    def _confidence_set(self, arm: int, share: float) -> Range:
        (totals, sizes), times = self._distinct[arm]
        low, high = (
            gaffke_ratio_bound(totals, sizes, end=end, alpha=share, side=side, times=times)
            for end, side in zip(self._bounds, _SIDES, strict=True)
        )
        return low, high

    def largest_tail(self, difference: float, nuisance: tuple[Range, Range]) -> float:
        """Return the largest p-value of a difference over the pairs of ratios that the confidence sets leave.

        The variance is a convex function of the baseline's ratio, and the end of the range a linear one: it is at an end.
        """
        ours, theirs = nuisance
        first, last = max(theirs[0], ours[0] - difference), min(theirs[1], ours[1] - difference)
        if first > last:
            return _SMALLEST
        return max(self._tail(at + difference, at) for at in {first, last})

    def _tail(self, ours: float, theirs: float) -> float:
        total, size, other_total, other_size = self._rows
        mean, other_mean = float(self._candidate.sizes.mean()), float(self._baseline.sizes.mean())
        distances = (total - ours * size) / mean - (other_total - theirs * other_size) / other_mean
        low, high = self._bounds
        pseudo = self._candidate.reach(low - ours) - self._baseline.reach(high - theirs)
        return tail_below_zero(distances, pseudo, self._times)

    def bracket(self, difference: float, goal: float) -> float:
        """Return a difference that is below the bound in most cases, from the normal approximation."""
        candidate, baseline = self._candidate, self._baseline
        residuals = candidate.influence(candidate.ratio) - baseline.influence(baseline.ratio)
        span = self._bounds[1] - self._bounds[0]
        pseudo = candidate.reach(span) + baseline.reach(span)
        error = math.sqrt(float(residuals @ residuals) + pseudo**2) / residuals.size
        return difference + 1.5 * (goal - 1) * error - pseudo / residuals.size


def _distinct(*columns: Array) -> tuple[Array, Array]:
    """Return the distinct rows, columns first, and how often each occurs: of yes or no there are few."""
    rows, counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    return rows.T, counts.astype(np.float64)
