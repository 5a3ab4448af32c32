"""Means of slices that share clusters, or twins, with the joint covariance from which changes of extremes are tested.

The covariance is CR2 (Bell & McCaffrey 2002): each cluster contributes its residual total in each slice, over the slice's
size, times 1 / sqrt(1 - its share of the slice). Values between bounds get two pseudo-clusters a slice, half as large as an
average cluster, one at each bound: without them a slice in which nothing varies has no error at all.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.means.differences import UnitSums
from pytest_crucible.stats.slices.slicing import JointErrors, SliceMeans, Slicing, sums_by_slice
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
    sums = totals + sizes * np.nan_to_num(means)
    is_matched = slicing.strata is None and is_binary and sizes.max(initial=0.0) == 1 and sizes.sum(axis=1).max() > 1
    return SliceMeans(
        sizes=samples,
        means=means,
        totals=means * samples,
        units=[UnitSums(*columns) for columns in zip(sums.T, sizes.T, strict=True)],
        bounds=bounds,
        is_counted=False,
        joint=_joint(sizes, totals, means, bounds),
        matched=np.where(sizes > 0, sums, math.nan) if is_matched else None,
    )


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


def _joint(sizes: Array, totals: Array, means: Array, bounds: Range) -> JointErrors:
    clusters, pseudo, centres = (sizes > 0).sum(axis=0), 0, means
    if all(map(math.isfinite, bounds)):
        pseudo = 2 * sizes.shape[1]
        centres, (sizes, totals) = _with_pseudo_clusters(sizes, totals, means, bounds)
    n = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(sizes < n, 1 / np.sqrt(1 - sizes / n), math.nan) / n
    contributions = totals * scale
    # One cluster shows nothing of the variance between clusters, whatever is added to it.
    contributions[:, clusters < 2] = math.nan
    return JointErrors(
        centres=centres,
        errors=np.sqrt((contributions**2).sum(axis=0)),
        contributions=contributions,
        pseudo_clusters=pseudo,
    )
