"""Means of slices: of independent samples, by strata, or with clusters that slices share."""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.clustered_means import clustered_means
from pytest_crucible.stats.slices.slicing import NO_SLICE, SliceMeans, Slicing, sums_by_slice, units_by_slice
from pytest_crucible.stats.slices.standardised import standardised_means


def slice_means(
    values: Array, slicing: Slicing, *, clusters: Codes | None = None, is_binary: bool, bounds: Range
) -> SliceMeans:
    """Return the means of `values` by slice. NaN values, and samples without a slice, are left out.

    >>> slicing = Slicing(codes=np.array([0, 0, 1, 1]), names=("a", "b"))
    >>> slice_means(np.array([1.0, 0.0, 1.0, 1.0]), slicing, is_binary=True, bounds=(0, 1)).means
    array([0.5, 1. ])
    """
    there = ~np.isnan(values) & (slicing.codes != NO_SLICE)
    if slicing.strata is not None:
        there &= slicing.strata != NO_SLICE
    kept, inside = slicing.choose(there), values[there]
    binary = is_binary and bool(np.isin(inside, (0.0, 1.0)).all())
    if clusters is not None:
        # All metrics of an arm, and both arms, have the same rows: clusters that a metric does not apply to are empty.
        return clustered_means(inside, kept, clusters[there], int(clusters.max(initial=-1)) + 1, bounds, binary)
    if kept.strata is not None:
        return standardised_means(inside, kept, bounds)
    return _independent(inside, kept, binary, bounds)


def _independent(values: Array, slicing: Slicing, counted: bool, bounds: Range) -> SliceMeans:
    ones = np.ones_like(values)
    sizes, totals = sums_by_slice(ones, slicing), sums_by_slice(values, slicing)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = totals / sizes
    return SliceMeans(
        sizes=sizes,
        means=means,
        totals=totals,
        units=units_by_slice(values, ones, slicing),
        bounds=bounds,
        is_counted=counted,
    )
