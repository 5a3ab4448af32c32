"""Gaffke's bounds for the difference of two independent means, melded into one.

Each arm's bounds are the quantiles of a weighted mean (`gaffke`). For a lower bound of the difference, the candidate's is
weighted with the low end of the range and the baseline's with the high end; the bound is the alpha-quantile of the difference
of the two (Fay, Proschan & Brittain 2015, Biometrics 71:146). Two bounds at alpha / 2 each would be wider: 3.92 instead of 2.33
standard errors of one of two arms that are alike.

The distribution of the difference is an integral over one weighted mean, by Gauss-Hermite quadrature on the normal scale, on
which its quantiles are nearly a line. With the narrower arm inside, 8 nodes are exact to 0.1 %. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Labels, Range, Side, check_side, check_tail
from pytest_crucible.stats.means.gaffke import gaffke_bound, gaffke_p_value, size_of_unseen, tail_below_zero
from pytest_crucible.stats.means.moments import two_arms
from pytest_crucible.stats.planning.roots import bracketed_root

# Two more than the 8 that are exact to 0.1 %, see above.
_NODES = 10
# Further digits would be lost in the quadrature.
_EXACT = 1e-9
_SMALLEST = 1e-300
_LARGEST = 1 - 1e-16


def melded_bound(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    clusters: tuple[Labels, Labels] | None = None,
) -> float:
    """Return the one-sided bound for candidate - baseline of two independent arms; `bounds` are those of the scores.

    Raises ValueError for values outside the bounds and for infinite ones, NotEnoughData below two values or five clusters
    in an arm.
    """
    from scipy.special import ndtri

    check_tail(alpha, side)
    first, second = two_arms(candidate, baseline)
    if side == "upper":
        mirrored = None if clusters is None else clusters[::-1]
        return -melded_bound(second, first, bounds=bounds, alpha=alpha, side="lower", clusters=mirrored)
    law, goal = _law(first, second, bounds, clusters), float(ndtri(alpha))

    def excess(difference: float) -> float:
        return float(ndtri(min(max(law(difference), _SMALLEST), _LARGEST))) - goal

    span, middle = bounds[1] - bounds[0], float(first.mean() - second.mean())
    near, far = -span, middle
    if (at_far := excess(far)) <= 0:
        far = float(first.max() - second.min())
        at_far = excess(far)
    # Without a value on the far side, the weighted means never reach it.
    return far if at_far <= 0 else bracketed_root(excess, near, excess(near), far, at_far, error=_EXACT * span)


def melded_p_value(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    null: float,
    bounds: Range,
    side: Side,
    clusters: tuple[Labels, Labels] | None = None,
) -> float:
    """Return the smallest alpha at which `melded_bound` excludes `null`: for "lower", evidence of a larger difference."""
    check_side(side)
    first, second = two_arms(candidate, baseline)
    if side == "upper":
        mirrored = None if clusters is None else clusters[::-1]
        return _law(second, first, bounds, mirrored)(-null)
    return _law(first, second, bounds, clusters)(null)


def _law(
    candidate: Array, baseline: Array, bounds: Range, clusters: tuple[Labels, Labels] | None
) -> Callable[[float], float]:
    """Return the distribution function of the difference of the weighted means."""
    ours, theirs = (None, None) if clusters is None else clusters
    chances, weights = _quadrature()

    def candidate_below(mean: float) -> float:
        return gaffke_p_value(candidate, null=mean, end=bounds[0], side="lower", clusters=ours)

    def baseline_above(mean: float) -> float:
        return gaffke_p_value(baseline, null=mean, end=bounds[1], side="upper", clusters=theirs)

    def of_candidate(chance: float) -> float:
        return gaffke_bound(candidate, end=bounds[0], alpha=chance, side="lower", clusters=ours)

    def of_baseline(chance: float) -> float:
        return gaffke_bound(baseline, end=bounds[1], alpha=1 - chance, side="upper", clusters=theirs)

    # The function outside must be no steeper than the quantiles inside, or the nodes would miss its step.
    if _width(of_baseline) <= _width(of_candidate):
        inside = [of_baseline(chance) for chance in chances]
        return lambda difference: float(weights @ [candidate_below(difference + mean) for mean in inside])
    inside = [of_candidate(chance) for chance in chances]
    return lambda difference: float(weights @ [baseline_above(mean - difference) for mean in inside])


def _width(quantile: Callable[[float], float]) -> float:
    return quantile(0.84) - quantile(0.16)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[list[float], Array]:
    """Return the chances of the nodes and their weights, for a mean over the standard normal distribution."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return ndtr(nodes).tolist(), weights / weights.sum()


_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class UnitSums:
    """The values of one mean, by unit: total and size of each sample or cluster. Sizes may be weights."""

    totals: Array
    sizes: Array

    @property
    def mean(self) -> float:
        return float(self.totals.sum() / self.sizes.sum())


@dataclass(frozen=True, slots=True, eq=False)
class MeanContrast:
    """A sum of means times coefficients, none of which is 0; all values lie within `bounds`."""

    means: Sequence[UnitSums]
    coefficients: Sequence[float]
    bounds: Range
    shares_units: bool
    """The means have the same units, in the same order; otherwise each has its own."""

    @property
    def estimate(self) -> float:
        return sum(factor * each.mean for factor, each in zip(self.coefficients, self.means, strict=True))

    @property
    def lowest(self) -> float:
        """The lowest value that the contrast can have: the values with a positive coefficient are at their low end."""
        return sum(factor * end for factor, end in zip(self.coefficients, self._worst_ends, strict=True))

    @property
    def _worst_ends(self) -> list[float]:
        return [self.bounds[0] if factor > 0 else self.bounds[1] for factor in self.coefficients]

    def lower_bound(self, alpha: float) -> float:
        """Return the lower bound, which errs in at most a share alpha of experiments; at most the estimate."""
        from scipy.special import ndtri

        goal = float(ndtri(alpha))

        def excess(null: float) -> float:
            # On the normal scale the tail is nearly a line. A tail of 1 would be infinite on it.
            return float(ndtri(min(self.p_value(null), _LARGEST))) - goal

        low, high = self.lowest, self.estimate
        if high <= low or (at_high := excess(high)) <= 0:
            return high
        near, far = self._bracket_bound(goal)
        inside = low < near < far < high
        at_near, at_far = (excess(near), excess(far)) if inside else (0.0, 0.0)
        if not at_near < 0 < at_far:
            near, far, at_near, at_far = low, high, excess(low), at_high
        return bracketed_root(excess, near, at_near, far, at_far, error=_EXACT * (high - low))

    def p_value(self, null: float) -> float:
        """Return the smallest alpha at which the lower bound excludes `null`: evidence that the contrast is above it."""
        return tail_below_zero(*self._distances(null))

    def _bracket_bound(self, goal: float) -> tuple[float, float]:
        """Return two nulls that enclose the bound in most cases, from the normal approximation."""
        distances, pseudo = self._distances(self.estimate)
        error = math.hypot(float(np.linalg.norm(distances)), pseudo)
        middle = self.estimate + pseudo + goal * error
        return middle - 0.5 * error, middle + 0.5 * error

    def _distances(self, null: float) -> tuple[Array, float]:
        """Return the distance of each unit from the means under the null, and that of the unseen one."""
        factors = np.array(self.coefficients, dtype=np.float64)
        sizes = np.array([each.sizes.sum() for each in self.means])
        means = np.array([each.totals.sum() for each in self.means]) / sizes
        heavy = np.abs(factors) * [size_of_unseen(each.sizes) for each in self.means] / sizes
        rooms = factors * (means - self._worst_ends)
        moves = _spread(float(factors @ means) - null, heavy, rooms)
        under_null = factors * means - moves
        distances = [
            (factor * each.totals - target * each.sizes) / n
            for factor, each, n, target in zip(factors, self.means, sizes, under_null, strict=True)
        ]
        units = np.sum(distances, axis=0) if self.shares_units else np.concatenate(distances)
        pseudo = float(heavy @ ((moves - rooms) / np.abs(factors)))
        # At the lowest contrast of all it is 0; a rest of rounding would be taken for a possible value.
        return units, pseudo if pseudo < -_ROUNDING * float(heavy.sum()) * (self.bounds[1] - self.bounds[0]) else 0.0


def ratio_lower_bound(first: UnitSums, second: UnitSums, *, bounds: Range, shares_units: bool, alpha: float) -> float:
    """Return the lower bound of the ratio of two means of values of at least 0; at most the ratio itself.

    A ratio is excluded if the first mean minus the ratio times the second is proven to be above 0 (Fieller 1954).
    """
    from scipy.special import ndtri

    goal = float(ndtri(alpha))

    def excess(share: float) -> float:
        pair = MeanContrast((first, second), (1.0, -share / (1 - share)), bounds, shares_units)
        return float(ndtri(min(pair.p_value(0.0), _LARGEST))) - goal

    ratio = first.mean / second.mean if second.mean else math.inf
    # The share of the first in the sum of both is finite for any ratio.
    low, high = _EXACT, min(ratio / (1 + ratio), 1 - _EXACT) if math.isfinite(ratio) else 1 - _EXACT
    if high <= low or (at_low := excess(low)) >= 0:
        return 0.0
    if (at_high := excess(high)) <= 0:
        return ratio
    share = bracketed_root(excess, low, at_low, high, at_high, error=_EXACT)
    return share / (1 - share)


def _spread(move: float, weights: Array, rooms: Array) -> Array:
    """Return parts of a move in proportion to the weights; no mean moves beyond its end while another has room."""
    parts = move / float(weights.sum()) * weights
    is_full, is_open = parts > rooms, np.ones(len(weights), dtype=bool)
    while is_full.any() and not is_full[is_open].all():
        parts[is_full], is_open = rooms[is_full], is_open & ~is_full
        parts[is_open] = (move - parts[~is_open].sum()) / weights[is_open].sum() * weights[is_open]
        is_full = is_open & (parts > rooms)
    return parts
