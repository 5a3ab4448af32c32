"""One-sided bounds for a ratio of means of pairs, from Gaffke's bound for the mean of x - r y.

mean(x) / mean(y) is above r if the mean of x - r y is above 0 (Fieller 1954, JRSS B 16:175). For values in [low, high] it lies in
[low - r high, high - r low]. So Gaffke's test of that mean (`means.gaffke`) tests the ratio, and the ratios that it does not reject
end in the bound. Amounts are at least 0, so that a larger r moves every x - r y and its end down: the p-value rises with r, and the
ratios that are rejected have no gaps. Nothing holds without an upper end: one unseen value could be the larger part of a total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats.arrays import (
    Array,
    Labels,
    Range,
    Side,
    check_share,
    check_side,
    is_finite_range,
    paired_arrays,
)
from pytest_crucible.stats.means.gaffke import gaffke_p_value
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
) -> float:
    """Return the smallest alpha at which `mean_ratio_bound` excludes `null`: for "lower", evidence of a larger ratio.

    Raises ValueError for amounts below 0 or out of bounds and for infinite bounds, NotEnoughData below two pairs or five clusters.

    >>> round(mean_ratio_p_value([3.0] * 30, [2.0] * 30, null=1.0, bounds=(1, 4), side="lower"), 4)
    0.0002
    """
    check_side(side)
    return _Pairs(*_checked(numerator, denominator, bounds), clusters).p_value(null, side)


def mean_ratio_bound(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    clusters: Labels | None = None,
) -> float:
    """Return the one-sided bound for mean(numerator) / mean(denominator); 0, or infinite, if no ratio is excluded.

    Arguments and errors as in `mean_ratio_p_value`.

    >>> round(mean_ratio_bound([3.0] * 30, [2.0] * 30, bounds=(1, 4), alpha=0.05, side="lower"), 3)
    1.282
    """
    check_share(alpha, "alpha")
    check_side(side)
    return _Pairs(*_checked(numerator, denominator, bounds), clusters).bound(alpha, side)


def _checked(numerator: npt.ArrayLike, denominator: npt.ArrayLike, bounds: Range) -> tuple[Array, Array, Range]:
    first, second = paired_arrays(numerator, denominator, names=("numerator", "denominator"))
    if not is_finite_range(bounds) or bounds[0] < 0:
        raise ValueError(
            f"a ratio of means has bounds only where the values have finite ones of at least 0, not {bounds!r}"
        )
    return first, second, bounds


@dataclass(frozen=True, slots=True)
class _Pairs:
    numerator: Array
    denominator: Array
    bounds: Range
    clusters: Labels | None

    def p_value(self, ratio: float, side: Side) -> float:
        low, high = self.bounds
        end = low - ratio * high if side == "lower" else high - ratio * low
        values = self.numerator - ratio * self.denominator
        return gaffke_p_value(values, null=0.0, end=end, side=side, clusters=self.clusters)

    def bound(self, alpha: float, side: Side) -> float:
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
