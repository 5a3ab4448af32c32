"""Means of slices with what their differences need: independent samples, or clusters and twins that slices share.

With clusters, the covariance of the means is CR2 (Bell & McCaffrey 2002): each cluster contributes its residual total in each
slice, over the slice's size, times 1 / sqrt(1 - its share of the slice). Values between bounds get two pseudo-clusters a slice,
half as large as an average cluster, one at each bound: without them a slice in which nothing varies has no error at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes, Range

# The size of a pseudo-cluster as a part of an average cluster.
PSEUDO_SIZE = 0.5
# Values at each bound that are added to a slice of scores.
PSEUDO_VALUES = 0.5
NO_SLICE = -1
"""The code of a sample without the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """The slice of each sample, and within which stratum its mean is standardised."""

    codes: Codes
    """0, 1, ... in the order of `names`; NO_SLICE where the sample has no value of the field."""
    names: tuple[str, ...]
    strata: Codes | None = None
    """The stratum of each sample; NO_SLICE where it has none. None: means are not standardised."""

    @property
    def count(self) -> int:
        return len(self.names)

    def choose(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]) -> Slicing:
        """Return the slices of some samples, by flags or by numbers. A slice may then be empty, and is still one of them."""
        strata = None if self.strata is None else self.strata[chosen]
        return Slicing(codes=self.codes[chosen], names=self.names, strata=strata)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceMeans:
    """One metric's mean in each of k slices. Arrays have one entry a slice."""

    sizes: Array
    """Number of samples."""
    means: Array
    """NaN for a slice without samples, or without a sample in some stratum."""
    totals: Array
    errors: Array
    """Standard error of each mean; NaN where it is unknown."""
    centres: Array
    """The middle of the bounds of each mean: the mean, or with clusters that of samples and pseudo-clusters."""
    dof: Array
    """Degrees of freedom of each standard error."""
    is_counted: bool
    """The values are independent and 0 or 1: totals are counts."""
    contributions: Array | None = None
    """Clusters x slices: the root of the covariance matrix; None for independent samples."""
    weights: Array | None = None
    """Clusters x slices: size times squared scale, by which degrees of freedom are computed."""
    factors: Array | None = None
    careful: tuple[Array, Array] | None = None
    """Means and standard errors with one more value at each bound, for independent scores between bounds."""
    matched: Array | None = None
    """Clusters x slices: the yes or no of the one sample that a cluster has in a slice, NaN where it has none; None for others."""
    pseudo_clusters: int = 0
    """Number of the last clusters that are not of the data."""

    @property
    def has_rate(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.means)


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
        return _clustered(inside, kept, clusters[there], int(clusters.max(initial=-1)) + 1, bounds, binary)
    if kept.strata is not None:
        return _standardised(inside, kept, bounds)
    return _independent(inside, kept, binary, bounds)


def pair_errors(plus: SliceMeans, minus: SliceMeans, first: Codes, second: Codes) -> tuple[Array, Array]:
    """Return standard error and degrees of freedom of each plus[first] - minus[second]. Welch's, or CR2's."""
    if plus.contributions is None or minus.contributions is None:
        variances = plus.errors[first] ** 2, minus.errors[second] ** 2
        return np.sqrt(variances[0] + variances[1]), welch_dof(variances, (plus.dof[first], minus.dof[second]))
    cross = plus.contributions.T @ minus.contributions
    squares = (plus.contributions**2).sum(axis=0)[first] + (minus.contributions**2).sum(axis=0)[second]
    return np.sqrt(np.maximum(squares - 2 * cross[first, second], 0.0)), _pair_dof(plus, first, second)


def welch_dof(variances: tuple[Array, Array], dofs: tuple[Array, Array]) -> Array:
    """Return Satterthwaite's degrees of freedom of a sum of two variances; the smaller ones where both are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = (variances[0] + variances[1]) ** 2 / (variances[0] ** 2 / dofs[0] + variances[1] ** 2 / dofs[1])
    return np.where(np.isfinite(total), total, np.minimum(*dofs))


def _independent(values: Array, slicing: Slicing, counted: bool, bounds: Range) -> SliceMeans:
    sizes, totals = _sums(np.ones_like(values), slicing), _sums(values, slicing)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = totals / sizes
        residuals = values - means[slicing.codes]
        errors = np.sqrt(_sums(residuals**2, slicing) / (sizes - 1) / sizes)
    errors[sizes < 2] = math.nan
    careful = (
        None
        if counted or not all(map(math.isfinite, bounds))
        else _augmented(sizes, totals, residuals, slicing, bounds)
    )
    return SliceMeans(
        careful=careful,
        sizes=sizes,
        means=means,
        totals=totals,
        errors=errors,
        centres=means,
        dof=np.maximum(sizes - 1, 1.0),
        is_counted=counted,
    )


def _augmented(sizes: Array, totals: Array, residuals: Array, slicing: Slicing, bounds: Range) -> tuple[Array, Array]:
    """Return means and standard errors of each slice with PSEUDO_VALUES more at each bound.

    A slice of ten scores of 1 has no variance, and yet its mean may be .9.
    """
    more = 2 * PSEUDO_VALUES
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.nan_to_num(totals / sizes)
    means = (totals + PSEUDO_VALUES * sum(bounds)) / (sizes + more)
    squares = _sums(residuals**2, slicing) + sizes * (own - means) ** 2
    squares = squares + sum(PSEUDO_VALUES * (end - means) ** 2 for end in bounds)
    return means, np.sqrt(squares / (sizes + more - 1) / (sizes + more))


def _sums(values: Array, slicing: Slicing) -> Array:
    return np.bincount(slicing.codes, weights=values, minlength=slicing.count).astype(np.float64)


def stratum_shares(strata: Codes) -> Array:
    """Return the share of each stratum among all samples.

    >>> stratum_shares(np.array([0, 1, 1, 1]))
    array([0.25, 0.75])
    """
    counts = np.bincount(strata).astype(np.float64)
    return np.asarray(counts / counts.sum())


def _cells(values: Array, slicing: Slicing) -> tuple[Array, Array, Array]:
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


def _standardised(values: Array, slicing: Slicing, bounds: Range) -> SliceMeans:
    """Return means by stratum, weighted by the share of each stratum in all slices (direct standardisation)."""
    sizes, weights, cell_means = _cells(values, slicing)
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
        totals=_sums(weights * values, slicing),
        errors=np.sqrt(total),
        centres=means,
        dof=np.where(np.isfinite(dof), np.maximum(dof, 1.0), 1.0),
        is_counted=False,
    )


def _cell_variances(values: Array, slicing: Slicing, sizes: Array, cell_means: Array, bounds: Range) -> Array:
    """Return the variance of the values of each cell: between bounds with half a value at each, else the sample's own.

    Cells are small, and one of a single sample, or without variation, is no proof that its mean is known.
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


def _clustered(
    values: Array, slicing: Slicing, codes: Codes, height: int, bounds: Range, is_binary: bool
) -> SliceMeans:
    """Return means whose covariance is CR2 over the clusters that the slices share."""
    count = slicing.count
    value_weights = np.ones_like(values)
    if slicing.strata is not None:
        cell_sizes, value_weights, _ = _cells(values, slicing)
        whole = (cell_sizes > 0).all(axis=1)
    sizes = _table(codes, slicing.codes, value_weights, (height, count))
    n = sizes.sum(axis=0)
    samples = _sums(np.ones_like(values), slicing)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = _sums(value_weights * values, slicing) / n
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


def _pair_dof(means: SliceMeans, first: Codes, second: Codes) -> Array:
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
