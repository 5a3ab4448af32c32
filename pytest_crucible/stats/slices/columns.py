"""The values of one arm by slice, as gap, ratio and worst take them: those that they add, and those that they subtract."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.slices.changes import arm_means
from pytest_crucible.stats.slices.means import slice_means
from pytest_crucible.stats.slices.slicing import ArmMeans, SliceMeans, Slicing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlicedColumns:
    """One arm's metrics, one entry a sample; NaN if a metric does not apply to a sample."""

    metrics: tuple[str, ...]
    plus: tuple[Array, ...]
    """Scores as observed, or with the lost samples where they make the statistic extreme."""
    minus: tuple[Array, ...]
    slicing: Slicing
    clusters: Codes | None
    binary: tuple[bool, ...]
    bounds: tuple[Range, ...]
    takes_smallest: bool = True
    """Whether the worst slice is the one with the smallest mean."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.slicing.names

    def means(self, values: tuple[Array, ...]) -> tuple[SliceMeans, ...]:
        """Return the means of `plus` or `minus` by slice."""
        return tuple(
            slice_means(column, self.slicing, clusters=self.clusters, is_binary=binary, bounds=bounds)
            for column, binary, bounds in zip(values, self.binary, self.bounds, strict=True)
        )

    def both_means(self) -> tuple[tuple[SliceMeans, ...], tuple[SliceMeans, ...]]:
        plus = self.means(self.plus)
        return plus, plus if self._is_observed() else self.means(self.minus)

    def arm(self) -> ArmMeans:
        """Return the means for a comparison with the other arm: clusters, or samples, carry the pairing."""
        # One range for all metrics: the widest, which only adds to the errors of narrower ones.
        bounds = min(low for low, _ in self.bounds), max(high for _, high in self.bounds)
        # The same arrays, so that their means are computed once.
        minus = self.plus if self._is_observed() else self.minus
        return arm_means(self.plus, minus, self.slicing, self.clusters, bounds)

    def _is_observed(self) -> bool:
        return all(
            plus is minus or np.array_equal(plus, minus, equal_nan=True)
            for plus, minus in zip(self.plus, self.minus, strict=True)
        )
