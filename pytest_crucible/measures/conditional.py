"""The difference of two conditional means: of the mean of the replies that a metric applies to, in either arm.

Whether a reply is in such a mean depends on the reply, so each arm has its own replies. Comparing only the samples where both
have a value would condition on the outcome: a classifier that selects nearly all samples would be judged by those that a strict
one selects, too. Each mean is a ratio of two means over the samples, and they are compared with their joint covariance: by
swaps of the arms (`resampling.arm_swaps`), and by bounds (`means.ratio_differences`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.measures.row import Difference, Numbers
from pytest_crucible.measures.values import is_tiny_mean
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.ratio_bounds import RatioArm, ratio_difference_bound, ratio_difference_p_value
from pytest_crucible.stats.resampling.alikeness import SWAPPED_ARMS, swap_arms
from pytest_crucible.stats.resampling.draws import UNSEEDED, Keys, MonteCarlo
from pytest_crucible.stats.results import Alikeness

BOUNDS = "gaffke of a ratio difference"
_SIDES: tuple[Side, Side] = ("lower", "upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Two arms on the same units, the better direction first, and what their values are."""

    first: RatioArm
    second: RatioArm
    bounds: Numbers
    samples: int
    """Samples that the metric applies to in some arm."""
    clusters: int | None
    ratio: str = ""
    """The name of the ratio if the values are logarithms."""
    keys: Keys | None = None
    """A hash of each unit, by which they are joined into blocks; None: of its position."""
    monte_carlo: MonteCarlo = UNSEEDED


def compare(pair: Pairing, alpha: float) -> Difference:
    """Return first minus second conditional mean; without bounds of the values there is a p-value and no interval."""
    value = pair.first.ratio - pair.second.ratio
    if math.isnan(value):
        return _difference(pair, None, "in one of the arms it applies to no reply")
    is_tiny = is_tiny_mean(value, pair.bounds)
    alike = swap_arms(pair.first, pair.second, keys=pair.keys, monte_carlo=pair.monte_carlo)
    difference = _difference(pair, 0.0 if is_tiny else value, alike=alike)
    if is_tiny:
        difference = replace(difference, p_value=1.0)
    if not all(map(math.isfinite, pair.bounds)):
        return difference
    try:
        return _with_bounds(difference, pair, alpha)
    except NotEnoughData as refusal:
        return replace(difference, note=str(refusal))


def _with_bounds(difference: Difference, pair: Pairing, alpha: float) -> Difference:
    low, high, lower, upper = (
        ratio_difference_bound(pair.first, pair.second, bounds=pair.bounds, alpha=share, side=side)
        for share in (alpha / 2, alpha)
        for side in _SIDES
    )
    return replace(
        difference,
        interval=Interval(low=low, high=high, level=1 - alpha, method=BOUNDS),
        lower=lower,
        upper=upper,
        proof_p=_proof_p(pair) if difference.value else 1.0,
        bounds_method=BOUNDS,
    )


def _proof_p(pair: Pairing) -> float:
    """Return the two-sided p-value of the bounds, for a difference of 0."""
    tails = (
        ratio_difference_p_value(pair.first, pair.second, null=0.0, bounds=pair.bounds, side=side) for side in _SIDES
    )
    return min(1.0, 2 * min(tails))


def unknown(samples: int, clusters: int | None, note: str) -> Difference:
    """Return a difference without a value, with the reason."""
    empty = RatioArm(np.array([]), np.array([]))
    bounds = (-math.inf, math.inf)
    return _difference(
        Pairing(first=empty, second=empty, bounds=bounds, samples=samples, clusters=clusters), None, note
    )


def without_proof(difference: Difference, note: str) -> Difference:
    """Return the difference alone, with the reason why nothing is proven about it."""
    return replace(
        difference,
        interval=None, p_value=None, proof_p=None, alikeness=None, lower=None, upper=None, deviation=None, note=note,
    )  # fmt: skip


def _difference(pair: Pairing, value: float | None, note: str = "", *, alike: Alikeness | None = None) -> Difference:
    """Return a difference without bounds."""
    return Difference(
        value=value,
        p_value=None if alike is None else alike.p_value,
        alikeness=alike,
        method=SWAPPED_ARMS,
        n=pair.samples,
        clusters=pair.clusters,
        deviation=None if value is None else _deviation(pair),
        span=pair.bounds[1] - pair.bounds[0],
        ratio=pair.ratio,
        note=note,
    )


def _deviation(pair: Pairing) -> float | None:
    """Return the square root of the samples times the standard error of the difference."""
    residuals = pair.first.influence(pair.first.ratio) - pair.second.influence(pair.second.ratio)
    units = residuals.size
    if units < 2:
        return None
    return math.sqrt(pair.samples * float(np.square(residuals).sum()) / (units * (units - 1)))
