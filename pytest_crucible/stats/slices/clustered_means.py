"""Means of slices that share clusters, or twins, with their joint covariance.

The covariance is CR2 (Bell & McCaffrey 2002): each cluster contributes its residual total in each slice, over the slice's
size, times 1 / sqrt(1 - its share of the slice). Values between bounds get two pseudo-clusters a slice, half as large as an
average cluster, one at each bound: without them a slice in which nothing varies has no error at all.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.slicing import SliceMeans, Slicing, sums_by_slice
from pytest_crucible.stats.slices.standardised import cells_of

# The size of a pseudo-cluster as a part of an average cluster.
PSEUDO_SIZE = 0.5


def clustered_means(
    values: Array, slicing: Slicing, codes: Codes, height: int, bounds: Range, is_binary: bool
) -> SliceMeans:
    """Return means whose covariance is CR2 over the clusters that the slices share."""
    count = slicing.count
    value_weights = np.ones_like(values)
    if slicing.strata is not None:
        cell_sizes, value_weights, _ = cells_of(values, slicing)
        whole = (cell_sizes > 0).all(axis=1)
    sizes = _table(codes, slicing.codes, value_weights, (height, count))
    n = sizes.sum(axis=0)
    samples = sums_by_slice(np.ones_like(values), slicing)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums_by_slice(value_weights * values, slicing) / n
    if slicing.strata is not None:
        means = np.where(whole, means, math.nan)
    residuals = value_weights * (values - np.nan_to_num(means)[slicing.codes])
    totals = _table(codes, slicing.codes, residuals, (height, count))
    centres, parts = means, (sizes, totals)
    if all(map(math.isfinite, bounds)):
        centres, parts = _with_pseudo_clusters(sizes, totals, means, bounds)
    pseudo = len(parts[0]) - len(sizes)
    joint = _joint(samples, means, centres, *parts, clusters=(sizes > 0).sum(axis=0), pseudo=pseudo)
    if slicing.strata is None and is_binary and sizes.max(initial=0.0) == 1 and sizes.sum(axis=1).max() > 1:
        return replace(joint, matched=np.where(sizes > 0, totals + np.nan_to_num(means), math.nan))
    return joint


def _table(rows: Codes, columns: Codes, weights: Array, shape: tuple[int, int]) -> Array:
    cells = np.bincount(rows * shape[1] + columns, weights=weights, minlength=shape[0] * shape[1])
    return np.asarray(cells.reshape(shape), dtype=np.float64)


def _with_pseudo_clusters(
    sizes: Array, totals: Array, means: Array, bounds: Range
) -> tuple[Array, tuple[Array, Array]]:
    """Return the shrunk means, and sizes and residual totals with two rows more for each slice."""
    n = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.nan_to_num(PSEUDO_SIZE * (sizes**2).sum(axis=0) / n)
        shift = weight * (sum(bounds) - 2 * np.nan_to_num(means)) / np.where(n > 0, n + 2 * weight, 1.0)
    extra = np.diag(weight)
    ends = [np.diag(weight * (end - np.nan_to_num(means))) for end in bounds]
    all_sizes = np.concatenate((sizes, extra, extra))
    all_totals = np.concatenate((totals, *ends)) - all_sizes * shift
    return means + shift, (all_sizes, all_totals)


def _joint(
    samples: Array, means: Array, centres: Array, sizes: Array, totals: Array, clusters: Array, pseudo: int
) -> SliceMeans:
    n = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(sizes < n, 1 / np.sqrt(1 - sizes / n), math.nan) / n
    contributions, factors = totals * scale, sizes * scale / np.sqrt(np.where(n > 0, n, 1.0))
    errors = np.sqrt((contributions**2).sum(axis=0))
    # One cluster shows nothing of the variance between clusters, whatever is added to it.
    errors[clusters < 2] = math.nan
    contributions[:, clusters < 2] = math.nan
    return SliceMeans(
        sizes=samples,
        means=means,
        totals=means * samples,
        errors=errors,
        centres=centres,
        dof=np.maximum(clusters - 1.0, 1.0),
        is_counted=False,
        contributions=contributions,
        weights=sizes * scale * scale,
        factors=factors,
        pseudo_clusters=pseudo,
    )


def pair_dof(means: SliceMeans, first: Codes, second: Codes) -> Array:
    """Return Satterthwaite's degrees of freedom of differences of two means, as `sandwich.robust_terms` does for one."""
    assert means.weights is not None
    assert means.factors is not None
    diagonal, squares = means.weights, means.factors**2
    of_diagonal, across = diagonal.T @ diagonal, diagonal.T @ squares
    inner = means.factors.T @ means.factors
    trace = (diagonal.sum(axis=0) - squares.sum(axis=0))[first] + (diagonal.sum(axis=0) - squares.sum(axis=0))[second]

    def total(matrix: Array) -> Array:
        own = np.diag(matrix)
        return np.asarray(own[first] + own[second] + matrix[first, second] + matrix[second, first])

    norm = total(of_diagonal) - 2 * total(across)
    norm = norm + np.diag(inner)[first] ** 2 + np.diag(inner)[second] ** 2 + 2 * inner[first, second] ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.maximum(trace * trace / norm, 1.0))
