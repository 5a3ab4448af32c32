"""Percentiles: an observed value, bounded by order statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.records import BoundedValue
from pytest_crucible.stats.measures import means
from pytest_crucible.stats.measures.row import (
    End,
    Floats,
    Measured,
    Observations,
    Prepared,
    no_bounds,
    no_data,
)

NO_BOUND = "none for a quantile of grouped samples"


def prepare(observations: Observations, end: End) -> Prepared:
    return replace(means.prepare(observations, end), quantile=observations.measure.quantile or 0.5)


def estimate(prepared: Prepared, level: float) -> Measured:
    """The percentile with its two-sided interval; without one for grouped samples."""
    if not len(prepared.values):
        return no_data(prepared)
    value = _quantile(prepared.values, prepared.quantile)
    # order statistics take samples for independent
    if prepared.clusters is not None:
        return Measured(value, None, None, NO_BOUND)
    interval = stats.quantile_interval(prepared.values, prepared.quantile, level=level)
    return Measured(value, interval, None, interval.method)


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """The percentile with its one-sided bounds; without them for grouped samples."""
    if not len(prepared.values):
        return no_bounds(prepared)
    value = _quantile(prepared.values, prepared.quantile)
    if prepared.clusters is not None:
        return BoundedValue(value=value, lower=None, upper=None), NO_BOUND
    # a lost value at infinity only needs its rank
    finite = np.nan_to_num(prepared.values)
    lower = stats.quantile_bound(finite, prepared.quantile, alpha=alpha, side="lower")
    upper = stats.quantile_bound(finite, prepared.quantile, alpha=alpha, side="upper")
    return BoundedValue(value=value, lower=lower, upper=upper), "order statistics"


def _quantile(values: Floats, quantile: float) -> float:
    """An order statistic rather than an interpolation, so that lost values at infinity need no arithmetic."""
    return float(np.quantile(values, quantile, method="inverted_cdf"))
