"""Means of slices: of independent samples, by strata, or with clusters that slices share."""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.clustered_means import clustered_means, pair_dof
from pytest_crucible.stats.slices.slicing import NO_SLICE, SliceMeans, Slicing, sums_by_slice
from pytest_crucible.stats.slices.standardised import standardised_means

# Values at each bound that are added to a slice of scores.
PSEUDO_VALUES = 0.5


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


def pair_errors(plus: SliceMeans, minus: SliceMeans, first: Codes, second: Codes) -> tuple[Array, Array]:
    """Return standard error and degrees of freedom of each plus[first] - minus[second]. Welch's, or CR2's."""
    if plus.contributions is None or minus.contributions is None:
        variances = plus.errors[first] ** 2, minus.errors[second] ** 2
        return np.sqrt(variances[0] + variances[1]), welch_dof(variances, (plus.dof[first], minus.dof[second]))
    cross = plus.contributions.T @ minus.contributions
    squares = (plus.contributions**2).sum(axis=0)[first] + (minus.contributions**2).sum(axis=0)[second]
    return np.sqrt(np.maximum(squares - 2 * cross[first, second], 0.0)), pair_dof(plus, first, second)


def welch_dof(variances: tuple[Array, Array], dofs: tuple[Array, Array]) -> Array:
    """Return Satterthwaite's degrees of freedom of a sum of two variances; the smaller ones where both are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = (variances[0] + variances[1]) ** 2 / (variances[0] ** 2 / dofs[0] + variances[1] ** 2 / dofs[1])
    return np.where(np.isfinite(total), total, np.minimum(*dofs))


def _independent(values: Array, slicing: Slicing, counted: bool, bounds: Range) -> SliceMeans:
    sizes, totals = sums_by_slice(np.ones_like(values), slicing), sums_by_slice(values, slicing)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = totals / sizes
        residuals = values - means[slicing.codes]
        errors = np.sqrt(sums_by_slice(residuals**2, slicing) / (sizes - 1) / sizes)
    errors[sizes < 2] = math.nan
    careful = (
        None if counted or not all(map(math.isfinite, bounds)) else _augment(sizes, totals, residuals, slicing, bounds)
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


def _augment(sizes: Array, totals: Array, residuals: Array, slicing: Slicing, bounds: Range) -> tuple[Array, Array]:
    """Return means and standard errors of each slice with PSEUDO_VALUES more at each bound.

    A slice of ten scores of 1 has no variance, and yet its mean may be .9.
    """
    more = 2 * PSEUDO_VALUES
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.nan_to_num(totals / sizes)
    means = (totals + PSEUDO_VALUES * sum(bounds)) / (sizes + more)
    squares = sums_by_slice(residuals**2, slicing) + sizes * (own - means) ** 2
    squares = squares + sum(PSEUDO_VALUES * (end - means) ** 2 for end in bounds)
    with np.errstate(divide="ignore"):
        # Without a value nothing is known of the mean: the error of an empty slice is infinite.
        return means, np.sqrt(squares / (sizes + more - 1) / (sizes + more))
