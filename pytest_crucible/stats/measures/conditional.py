"""The difference of two conditional means: of the mean of the replies that a metric applies to, in either arm.

Whether a reply is in such a mean depends on the reply, so each arm has its own replies. Comparing only the samples where both
have a value would condition on the outcome: a classifier that selects nearly everybody would be judged by those whom a strict
one selects, too. Each mean is a ratio of two means over the samples, and they are compared with their joint covariance: by
swaps of the arms (`resampling.arm_swaps`), and by bounds (`means.ratio_differences`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.means.ratio_differences import RatioArm, ratio_difference_bound, ratio_difference_p_value
from pytest_crucible.stats.measures.rounding import is_tiny_mean
from pytest_crucible.stats.measures.row import Difference, Numbers
from pytest_crucible.stats.resampling.arm_swaps import swap_p_value

METHOD = "swapped arms"
BOUNDS = "gaffke of a ratio difference"


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


def compare(pair: Pairing, alpha: float) -> Difference:
    """Return first minus second conditional mean; without bounds of the values there is a p-value and no interval."""
    value = pair.first.ratio - pair.second.ratio
    if math.isnan(value):
        return _difference(pair, None, "in one of the arms it applies to no reply")
    if is_tiny_mean(value, pair.bounds):
        value = 0.0
    p_value = swap_p_value(pair.first, pair.second)
    if not all(map(math.isfinite, pair.bounds)):
        return _difference(pair, value, p_value=p_value)
    arms, bounds = (pair.first, pair.second), pair.bounds
    try:
        low, high, lower, upper = (
            ratio_difference_bound(*arms, bounds=bounds, alpha=share, side=side)
            for share in (alpha / 2, alpha)
            for side in ("lower", "upper")
        )
    except NotEnoughData as refusal:
        return _difference(pair, value, str(refusal), p_value=p_value)
    return _difference(
        pair,
        value,
        p_value=p_value,
        interval=Interval(low=low, high=high, level=1 - alpha, method=BOUNDS),
        lower=lower,
        upper=upper,
    )


def unknown(samples: int, clusters: int | None, note: str) -> Difference:
    """Return a difference without a value, with the reason."""
    empty = RatioArm(np.array([]), np.array([]))
    bounds = (-math.inf, math.inf)
    return _difference(
        Pairing(first=empty, second=empty, bounds=bounds, samples=samples, clusters=clusters), None, note
    )


def without_proof(difference: Difference, note: str) -> Difference:
    """Return the difference alone, with the reason why nothing is proven about it."""
    return replace(difference, interval=None, p_value=None, lower=None, upper=None, deviation=None, note=note)


def proof_p_value(pair: Pairing) -> float:
    """Return the two-sided p-value of the bounds, for a difference of 0."""
    tails = (
        ratio_difference_p_value(pair.first, pair.second, null=0.0, bounds=pair.bounds, side=side)
        for side in ("lower", "upper")
    )
    return min(1.0, 2 * min(tails))


def _difference(
    pair: Pairing,
    value: float | None,
    note: str = "",
    *,
    p_value: float | None = None,
    interval: Interval | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> Difference:
    return Difference(
        value=value,
        interval=interval,
        p_value=p_value,
        p_exact=None,
        lower=lower,
        upper=upper,
        method=METHOD,
        bounds_method=BOUNDS if lower is not None else "none",
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
