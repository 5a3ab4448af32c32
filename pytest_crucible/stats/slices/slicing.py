"""The slice of each sample, and the means of slices: independent, by strata, or with shared clusters.

Means of slices that share clusters, or twins, with the joint covariance from which changes of extremes are tested.
The covariance is CR2 (Bell & McCaffrey 2002): each cluster contributes its residual total in each slice, over the slice's
size, times 1 / sqrt(1 - its share of the slice). Values between bounds get two pseudo-clusters a slice, half as large as an
average cluster, one at each bound: without them a slice in which nothing varies has no error at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.means.differences import UnitSums

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
        """Return the slicing of some samples, selected by a mask or by indices. Slices that are then empty stay in `names`."""
        strata = None if self.strata is None else self.strata[chosen]
        return Slicing(codes=self.codes[chosen], names=self.names, strata=strata)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointErrors:
    """The CR2 covariance of one arm's slice means over clusters, from which the change of an extreme is tested."""

    centres: Array
    """The means of samples and pseudo-clusters together."""
    errors: Array
    """The standard error of each mean; NaN for a slice of one cluster."""
    contributions: Array
    """Clusters x slices: the root of the covariance matrix."""
    pseudo_clusters: int
    """Number of the last clusters that are not of the data."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceMeans:
    """One metric's mean in each of k slices. Arrays have one entry a slice."""

    sizes: Array
    """Number of samples."""
    means: Array
    """NaN for a slice without samples, or without a sample in some stratum."""
    totals: Array
    units: Sequence[UnitSums]
    """The samples, or clusters, of each slice, which bounds of scores are made of."""
    bounds: Range
    is_counted: bool
    """The values are independent and 0 or 1: totals are counts."""
    joint: JointErrors | None = None
    """None for independent samples; with it, the slices have the same clusters as their units."""
    matched: Array | None = None
    """Clusters x slices: the yes or no of the one sample that a cluster has in a slice, NaN if it has none; None for others."""

    @property
    def has_rate(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.means)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmMeans:
    """The slice means of one arm: of each metric those that extremes add, and those that they subtract.

    Both are the same means, unless lost samples are put at the end where they make the extreme largest, or smallest.
    """

    plus: tuple[SliceMeans, ...]
    minus: tuple[SliceMeans, ...]


def sums_by_slice(values: Array, slicing: Slicing) -> Array:
    """Return the sum of the values in each slice.

    >>> sums_by_slice(np.array([1.0, 2.0]), Slicing(codes=np.array([1, 1]), names=("a", "b"))).tolist()
    [0.0, 3.0]
    """
    return np.bincount(slicing.codes, weights=values, minlength=slicing.count).astype(np.float64)


def units_by_slice(values: Array, weights: Array, slicing: Slicing) -> list[UnitSums]:
    """Return the samples of each slice, in their order; weights are their sizes."""
    order = np.argsort(slicing.codes, kind="stable")
    ends = np.cumsum(np.bincount(slicing.codes, minlength=slicing.count))[:-1]
    parts = (np.split(column[order], ends) for column in (weights * values, weights))
    return [UnitSums(*slice_) for slice_ in zip(*parts, strict=True)]


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


def slice_means(
    values: Array, slicing: Slicing, *, clusters: Codes | None = None, is_binary: bool, bounds: Range
) -> SliceMeans:
    """Return the means of `values` by slice. NaN values, and samples without a slice, are left out."""
    there = ~np.isnan(values) & (slicing.codes != NO_SLICE)
    if slicing.strata is not None:
        there &= slicing.strata != NO_SLICE
    part, inside = slicing.choose(there), values[there]
    binary = is_binary and bool(np.isin(inside, (0.0, 1.0)).all())
    if clusters is not None:
        # All metrics of an arm, and both arms, have the same rows: clusters that a metric does not apply to are empty.
        return clustered_means(inside, part, clusters[there], int(clusters.max(initial=-1)) + 1, bounds, binary)
    if part.strata is not None:
        return standardised_means(inside, part, bounds)
    return _independent(inside, part, binary, bounds)


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
