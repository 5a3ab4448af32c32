"""Percentiles: an observed value, bounded by order statistics; of replies in clusters, by bounds of their distribution function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pytest_crucible.measures import means
from pytest_crucible.measures.row import (
    Clusters,
    Difference,
    End,
    Measured,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.measures.values import NOISE
from pytest_crucible.records import BoundedValue
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.interval import Interval, NotEnoughData

if TYPE_CHECKING:
    from pytest_crucible.stats.ranks.quantiles import QuantileArm

ORDER_STATISTICS = "order statistics"
QuantileBound = Callable[[float, Side], float]


def prepare(observations: Observations, end: End) -> Prepared:
    """Return every reply's value with its group; its sample is the group where samples have several replies."""
    one_each = means.prepare(replace(observations, samples=None), end)
    samples = observations.samples
    # Samples with one reply each are independent, and have exact bounds.
    several = None if samples is None or np.unique(samples).size == samples.size else samples
    clusters = several if observations.clusters is None else observations.clusters
    return replace(one_each, clusters=clusters, quantile=observations.measure.quantile or 0.5)


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the percentile with its two-sided interval; without one below five groups."""
    if not len(prepared.values):
        return no_data(prepared)
    value, clusters = quantile_of(prepared), counted_clusters(prepared.clusters)
    try:
        bound, method = bound_of(prepared)
    except NotEnoughData as refusal:
        return Measured(value, None, clusters, f"none: {refusal}")
    return describe_quantile(value, bound, method, clusters, level)


def describe_quantile(value: float, bound: QuantileBound, method: str, clusters: int | None, level: float) -> Measured:
    """Return a percentile with the interval of its one-sided bounds."""
    tail = (1 - level) / 2
    interval = Interval(low=bound(tail, "lower"), high=bound(tail, "upper"), level=level, method=method)
    return Measured(value, interval, clusters, method)


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the percentile with its one-sided bounds; without them below five groups."""
    if not len(prepared.values):
        return no_bounds(prepared)
    value = quantile_of(prepared)
    try:
        side, method = bound_of(prepared)
    except NotEnoughData as refusal:
        return BoundedValue(value=value, lower=None, upper=None), f"none: {refusal}"
    return BoundedValue(value=value, lower=side(alpha, "lower"), upper=side(alpha, "upper")), method


def quantile_of(prepared: Prepared) -> float:
    """Return an order statistic rather than an interpolation, so that lost values at infinity need no arithmetic."""
    from pytest_crucible.stats.ranks.quantiles import quantile_rank

    place = quantile_rank(prepared.values.size, prepared.quantile) - 1
    return float(np.partition(prepared.values, place)[place])


def bound_of(prepared: Prepared) -> tuple[QuantileBound, str]:
    """Return the percentile's one-sided bound by alpha and side, with its method. Raises NotEnoughData below five clusters."""
    # A session without percentiles loads none of it.
    from pytest_crucible.stats.ranks.quantiles import METHOD, clustered_quantile_bound, clustered_shares, value_at

    if prepared.clusters is None:
        ordered = np.sort(prepared.values)
        return bound_of_ranks(partial(value_at, ordered), ordered.size, prepared), ORDER_STATISTICS
    shares = clustered_shares(prepared.values, prepared.clusters)
    return partial(_clip_bound, partial(clustered_quantile_bound, shares, prepared.quantile), prepared), METHOD


def bound_of_ranks(at: Callable[[int], float], n: int, prepared: Prepared) -> QuantileBound:
    """Return the bound of n values without groups, of which `at` returns the one with a rank; a lost one may be infinite."""
    from pytest_crucible.stats.ranks.quantiles import quantile_bound_of

    return partial(_clip_bound, partial(quantile_bound_of, at, n, prepared.quantile), prepared)


def _clip_bound(unclipped: Callable[..., float], prepared: Prepared, alpha: float, side: Side) -> float:
    """Return a bound within the metric's own: too few values leave an end at infinity, where no value can be."""
    return min(max(unclipped(alpha=alpha, side=side), prepared.bounds[0]), prepared.bounds[1])


_SIDES: tuple[Side, Side] = ("lower", "upper")


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second percentile. None without pairs, and where a lost value could be anything."""
    from pytest_crucible.stats.ranks.quantiles import QuantileArm, quantile_correlation

    if not len(first.values) or not len(second.values):
        return None
    values = quantile_of(first), quantile_of(second)
    if not all(map(math.isfinite, values)):
        return None
    try:
        (of_first, method), (of_second, _) = bound_of(first), bound_of(second)
    except NotEnoughData as refusal:
        return describe_difference(first, values, "none", str(refusal))
    arms = QuantileArm(values[0], of_first), QuantileArm(values[1], of_second)
    has_codes = first.clusters is not None or second.clusters is not None or first.values.size != second.values.size
    codes = (_codes(first), _codes(second)) if has_codes else None
    correlation = quantile_correlation((first.values, second.values), values, first.quantile, codes)
    difference = describe_difference(first, values, f"mover of {method}")
    return compare_quantiles(difference, arms, correlation, first.quantile, alpha)


def compare_quantiles(
    difference: Difference, arms: tuple[QuantileArm, QuantileArm], correlation: float, q: float, alpha: float
) -> Difference:
    """Return a difference of percentiles with its bounds, from those of the arms."""
    from pytest_crucible.stats.ranks.quantiles import quantile_difference_bound, quantile_difference_p_value

    low, high, lower, upper = (
        quantile_difference_bound(*arms, correlation, alpha=share, side=side)
        for share in (alpha / 2, alpha)
        for side in _SIDES
    )
    if math.isinf(low) and math.isinf(high):
        # So few replies cannot prove anything.
        return replace(difference, note=f"too few samples to bound a difference of p{q * 100:g}")
    tiny = abs(difference.value or 0.0) <= NOISE * max(abs(arm.value) for arm in arms)
    return replace(
        difference,
        value=0.0 if tiny else difference.value,
        interval=Interval(low=low, high=high, level=1 - alpha, method=difference.method),
        p_value=1.0 if tiny else quantile_difference_p_value(*arms, correlation),
        lower=lower,
        upper=upper,
    )


def describe_difference(first: Prepared, values: tuple[float, float], method: str, note: str = "") -> Difference:
    """Return a difference of percentiles without bounds."""
    return Difference(
        value=values[0] - values[1],
        method=method,
        bounds_method=method,
        n=len(first.values) if first.size is None else first.size,
        clusters=counted_clusters(first.clusters),
        span=first.bounds[1] - first.bounds[0],
        note=note,
    )


def _codes(arm: Prepared) -> Clusters:
    return np.arange(len(arm.values)) if arm.clusters is None else arm.clusters
