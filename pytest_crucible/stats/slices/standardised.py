"""Means of slices by stratum, weighted by the share of each stratum in all slices (direct standardisation)."""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.slicing import SliceMeans, Slicing, sums_by_slice, units_by_slice


def stratum_shares(strata: Codes) -> Array:
    """Return the share of each stratum among all samples.

    >>> stratum_shares(np.array([0, 1, 1, 1]))
    array([0.25, 0.75])
    """
    counts = np.bincount(strata).astype(np.float64)
    return np.asarray(counts / counts.sum())


def cells_of(values: Array, slicing: Slicing) -> tuple[Array, Array, Array]:
    """Return the size of each cell (slices x strata), the weight of a value in its slice's mean, and the cell means."""
    assert slicing.strata is not None
    shares = stratum_shares(slicing.strata) if len(values) else np.zeros(1)
    cells = slicing.codes * len(shares) + slicing.strata
    shape = slicing.count, len(shares)
    sizes = np.bincount(cells, minlength=shape[0] * shape[1]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        cell_means = np.bincount(cells, weights=values, minlength=sizes.size) / sizes
    weights = shares[slicing.strata] / sizes[cells]
    return sizes.reshape(shape), weights, cell_means.reshape(shape)


def standardised_means(values: Array, slicing: Slicing, bounds: Range) -> SliceMeans:
    """Return means by stratum, weighted by the share of each stratum in all slices (direct standardisation)."""
    sizes, weights, cell_means = cells_of(values, slicing)
    assert slicing.strata is not None
    shares = stratum_shares(slicing.strata) if len(values) else np.zeros(1)
    with np.errstate(invalid="ignore"):
        means = np.where((sizes > 0).all(axis=1), np.nansum(cell_means * shares, axis=1), math.nan)
    return SliceMeans(
        sizes=sizes.sum(axis=1),
        means=means,
        totals=sums_by_slice(weights * values, slicing),
        # A bound counts the differences of strata too, as if their samples were drawn: it errs on the cautious side.
        units=units_by_slice(values, weights, slicing),
        bounds=bounds,
        is_counted=False,
    )
