"""The slice of each sample, and the means of slices with what their differences need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes

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
class SliceMeans:
    """One metric's mean in each of k slices. Arrays have one entry a slice."""

    sizes: Array
    """Number of samples."""
    means: Array
    """NaN for a slice without samples, or without a sample in some stratum."""
    totals: Array
    errors: Array
    """Standard error of each mean; NaN if it is unknown."""
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
    """Clusters x slices: the yes or no of the one sample that a cluster has in a slice, NaN if it has none; None for others."""
    pseudo_clusters: int = 0
    """Number of the last clusters that are not of the data."""

    @property
    def has_rate(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.means)


def sums_by_slice(values: Array, slicing: Slicing) -> Array:
    """Return the sum of the values in each slice.

    >>> sums_by_slice(np.array([1.0, 2.0]), Slicing(codes=np.array([1, 1]), names=("a", "b"))).tolist()
    [0.0, 3.0]
    """
    return np.bincount(slicing.codes, weights=values, minlength=slicing.count).astype(np.float64)
