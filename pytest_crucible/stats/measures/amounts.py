"""Shared by the ratios of amounts: rounding in proportion to a value, the test of alikeness, and the scatter of a mean."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_deviation
from pytest_crucible.stats.measures.rounding import without_rounding
from pytest_crucible.stats.measures.row import Clusters, Difference, Floats, Prepared, counted_clusters
from pytest_crucible.stats.resampling.alikeness import flip_signs

# The rounding of an amount is relative to its size, not to its declared bounds.
_NO_RANGE = (0.0, math.inf)


def without_relative_rounding(first: Floats, second: Floats) -> Floats:
    """Return the second amounts, after replacing those that differ from the first by less than a millionth of them."""
    return without_rounding(first, second, _NO_RANGE)


def describe_ratio(first: Prepared, ratio: str, value: float | None, note: str = "") -> Difference:
    """Return the logarithm of a ratio, as yet without test and bounds."""
    groups = counted_clusters(first.clusters)
    return Difference(
        value=value,
        interval=None,
        p_value=None,
        p_exact=None,
        lower=None,
        upper=None,
        method="none",
        bounds_method="none",
        n=len(first.values),
        clusters=groups,
        deviation=None,
        dof=None if groups is None else groups - 1.0,
        ratio=ratio,
        note=note,
    )


def with_alikeness(ratio: Difference, first: Prepared, differences: Floats) -> Difference:
    """Return the ratio with the test that the two replies to a sample could be exchanged, by these differences of pairs."""
    try:
        alike = flip_signs(differences, clusters=first.clusters, keys=first.keys, monte_carlo=first.monte_carlo)
    except NotEnoughData as refusal:
        return replace(ratio, note=str(refusal))
    return replace(ratio, p_value=alike.p_value, alikeness=alike, method=alike.method)


def deviation_of_mean(values: Floats, clusters: Clusters | None) -> float:
    """Return the square root of n times the standard error of a mean, by which samples are planned."""
    if clusters is None:
        return standard_deviation(values)
    return clustered_mean(values, clusters).se * math.sqrt(values.size)
