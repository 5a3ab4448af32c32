"""The difference of a percentile between two arms that answered the same samples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.measures.percentiles import bound_of, quantile_of
from pytest_crucible.measures.row import Clusters, Difference, Prepared, counted_clusters
from pytest_crucible.measures.values import NOISE
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.ranks.quantiles import (
    QuantileArm,
    quantile_correlation,
    quantile_difference_bound,
    quantile_difference_p_value,
)

_SIDES: tuple[Side, Side] = ("lower", "upper")


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second percentile. None without pairs, and where a lost value could be anything."""
    if not len(first.values) or not len(second.values):
        return None
    values = quantile_of(first), quantile_of(second)
    if not all(map(math.isfinite, values)):
        return None
    try:
        (of_first, method), (of_second, _) = bound_of(first), bound_of(second)
    except NotEnoughData as refusal:
        return _describe(first, values, "none", str(refusal))
    arms = QuantileArm(values[0], of_first), QuantileArm(values[1], of_second)
    correlation = quantile_correlation(
        (first.values, second.values), values, first.quantile, (_codes(first), _codes(second))
    )
    low, high, lower, upper = (
        quantile_difference_bound(*arms, correlation, alpha=share, side=side)
        for share in (alpha / 2, alpha)
        for side in _SIDES
    )
    difference = _describe(first, values, f"mover of {method}")
    if math.isinf(low) and math.isinf(high):
        # So few replies cannot prove anything.
        return replace(difference, note=f"too few samples to bound a difference of p{first.quantile * 100:g}")
    tiny = abs(difference.value or 0.0) <= NOISE * max(map(abs, values))
    return replace(
        difference,
        value=0.0 if tiny else difference.value,
        interval=Interval(low=low, high=high, level=1 - alpha, method=difference.method),
        p_value=1.0 if tiny else quantile_difference_p_value(*arms, correlation),
        lower=lower,
        upper=upper,
    )


def _describe(first: Prepared, values: tuple[float, float], method: str, note: str = "") -> Difference:
    return Difference(
        value=values[0] - values[1],
        interval=None,
        p_value=None,
        p_exact=None,
        lower=None,
        upper=None,
        method=method,
        bounds_method=method,
        n=len(first.values) if first.size is None else first.size,
        clusters=counted_clusters(first.clusters),
        deviation=None,
        span=first.bounds[1] - first.bounds[0],
        note=note,
    )


def _codes(arm: Prepared) -> Clusters:
    return np.arange(len(arm.values)) if arm.clusters is None else arm.clusters
