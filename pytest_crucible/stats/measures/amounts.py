"""Shared by the ratios of amounts: rounding in proportion to a value, and a difference of logarithms without a test."""

from __future__ import annotations

import math

from pytest_crucible.stats.measures.rounding import without_rounding
from pytest_crucible.stats.measures.row import Difference, Floats, Prepared, counted_clusters

# The rounding of an amount is relative to its size, not to its declared bounds.
_NO_RANGE = (0.0, math.inf)


def without_relative_rounding(first: Floats, second: Floats) -> Floats:
    """Return the second amounts, after replacing those that differ from the first by less than a millionth of them."""
    return without_rounding(first, second, _NO_RANGE)


def describe_ratio(first: Prepared, ratio: str, value: float | None, method: str, note: str = "") -> Difference:
    """Return the logarithm of a ratio, as yet without interval, bounds and p-value."""
    return Difference(
        value=value,
        interval=None,
        p_value=None,
        p_exact=None,
        lower=None,
        upper=None,
        method=method,
        bounds_method=method,
        n=len(first.values),
        clusters=counted_clusters(first.clusters),
        deviation=None,
        ratio=ratio,
        note=note,
    )
