"""Means of slices by stratum, weighted by the share of each stratum in all slices (direct standardisation)."""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.slicing import SliceMeans, Slicing, sums_by_slice


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
    variances = _cell_variances(values, slicing, sizes, cell_means, bounds) / np.maximum(sizes, 1.0) * shares**2
    total = variances.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        dof = total**2 / (variances**2 / np.maximum(sizes - 1, 1.0)).sum(axis=1)
    return SliceMeans(
        sizes=sizes.sum(axis=1),
        means=means,
        totals=sums_by_slice(weights * values, slicing),
        errors=np.sqrt(total),
        centres=means,
        dof=np.where(np.isfinite(dof), np.maximum(dof, 1.0), 1.0),
        is_counted=False,
    )


def _cell_variances(values: Array, slicing: Slicing, sizes: Array, cell_means: Array, bounds: Range) -> Array:
    """Return the variance of the values of each cell: between bounds with half a value at each, else the sample's own.

    Cells are small, and one of a single sample, or without variation, does not prove that its mean is known.
    """
    assert slicing.strata is not None
    squares = np.zeros_like(sizes)
    np.add.at(squares, (slicing.codes, slicing.strata), (values - cell_means[slicing.codes, slicing.strata]) ** 2)
    if not all(map(math.isfinite, bounds)):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(sizes > 1, squares / (sizes - 1), math.nan)
    middle = np.where(sizes > 0, np.nan_to_num(cell_means), 0.0)
    added = sum(0.5 * (end - middle) ** 2 for end in bounds)
    return np.asarray((squares + added) / np.maximum(sizes, 1.0))
