"""One-sided bounds for the difference of two ratios of means, such as the means of the replies that a metric applies to.

A unit is a sample or a group. In each arm it has a total, the sum of its values, and a size, the number of them, perhaps 0. With the
ratios r and q of the two arms, the mean over units of

    (total - r size) / (mean size of the candidate) - (total - q size) / (mean size of the baseline)

is the difference of the estimated ratios minus (r - q): its expectation is about 0 at the truth, and its variance is that of the
difference with the covariance of both arms (Cochran 1977, Sampling Techniques, 6.13). So Gaffke's p-value of "its mean is 0"
(`gaffke`) is one of that pair of ratios. The end of its range is that of a unit whose values are at the low end in the candidate and at
the high end in the baseline. Where both arms have a value of each sample, it is the p-value of the paired differences.

A difference fixes one ratio given the other. The other is a nuisance: the largest p-value over its confidence set decides, and what the
confidence set may miss is subtracted from alpha (Berger & Boos 1994, JASA 89:1012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import Array, Range, Side, check_share, check_side
from pytest_crucible.stats.means.gaffke import gaffke_ratio_bound, size_of_unseen, tail_below_zero
from pytest_crucible.stats.planning.roots import bracketed_root

# The part of alpha that the confidence set of the nuisance may miss: a larger one costs power, a smaller one widens the set.
_NUISANCE = 0.05
_EXACT = 1e-8
_SMALLEST = math.ulp(0.0)
_LARGEST = math.nextafter(1.0, 0.0)
# No p-value is computed below it.
_TINY = 1e-300


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
        return (self.totals - ratio * self.sizes) / self.sizes.mean()

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
    -0.114
    """
    from scipy.special import ndtri

    check_share(alpha, "alpha")
    check_side(side)
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

    Errors as there.
    """
    from scipy.special import ndtri

    check_side(side)
    if side == "upper":
        return ratio_difference_p_value(baseline, candidate, null=-null, bounds=bounds, side="lower")
    if candidate.ratio - baseline.ratio <= null:
        return 1.0
    problem = _Problem(candidate, baseline, bounds)

    def excess(score: float) -> float:
        """Rises with the normal score of alpha: positive where that alpha excludes the null."""
        alpha = _alpha_of(score)
        tail = problem.largest_tail(null, problem.nuisance(alpha))
        return score_of(alpha * (1 - _NUISANCE)) - score_of(tail)

    def score_of(chance: float) -> float:
        return float(ndtri(min(max(chance, _TINY), _LARGEST)))

    low, high = score_of(_TINY), score_of(0.5)
    at_low, at_high = excess(low), excess(high)
    if at_high <= 0:
        return 1.0
    return _TINY if at_low >= 0 else _alpha_of(bracketed_root(excess, low, at_low, high, at_high, error=1e-4))


def _alpha_of(score: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(score))


class _Problem:
    """Two arms, whose tails are asked for at several differences and nuisances."""

    def __init__(self, candidate: RatioArm, baseline: RatioArm, bounds: Range) -> None:
        for arm in (candidate, baseline):
            if (count := int((arm.sizes > 0).sum())) < 2:
                raise NotEnoughData(f"{quantity(count, 'unit')} with values in an arm: a difference needs at least 2")
        rows = np.column_stack((candidate.totals, candidate.sizes, baseline.totals, baseline.sizes))
        # Of yes or no there are few different units, each of them many times.
        distinct, self._times = np.unique(rows, axis=0, return_counts=True)
        self._rows = distinct
        self._candidate, self._baseline, self._bounds = candidate, baseline, bounds
        # The arm with more values has the narrower confidence set.
        self._is_of_candidate = candidate.sizes.sum() > baseline.sizes.sum()
        self.nuisance = lru_cache(maxsize=64)(self._nuisance)

    def _nuisance(self, alpha: float) -> tuple[float, float]:
        """Return the confidence set of one arm's ratio, which misses it with a probability of _NUISANCE alpha."""
        arm, (low, high) = self._candidate if self._is_of_candidate else self._baseline, self._bounds
        share = max(alpha * _NUISANCE / 2, _TINY)
        return (
            gaffke_ratio_bound(arm.totals, arm.sizes, end=low, alpha=share, side="lower"),
            gaffke_ratio_bound(arm.totals, arm.sizes, end=high, alpha=share, side="upper"),
        )

    def largest_tail(self, difference: float, nuisance: tuple[float, float]) -> float:
        """Return the largest p-value of a difference over the confidence set.

        The variance is a convex function of the nuisance, and the end of the range a linear one: it is at an end.
        """
        low, high = self._bounds
        shift = -difference if self._is_of_candidate else difference
        first, last = max(nuisance[0], low, low - shift), min(nuisance[1], high, high - shift)
        if first > last:
            return _SMALLEST
        ratios = [(at, at - difference) if self._is_of_candidate else (at + difference, at) for at in {first, last}]
        return max(self._tail(*pair) for pair in ratios)

    def _tail(self, ours: float, theirs: float) -> float:
        total, size, other_total, other_size = self._rows.T
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
