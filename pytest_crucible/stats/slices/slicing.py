"""The slice of each sample, and the means of slices with what their differences need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
