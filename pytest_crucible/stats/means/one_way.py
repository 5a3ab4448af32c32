"""Variance components between and within groups of any size: one-way analysis of variance.

Searle, Casella & McCulloch (1992), Variance Components, ch. 3. With equal sizes these are the REML estimates whenever
the one between groups is not negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import ROUNDING, Array, Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """The variance of single values in two components. None if the data do not define one."""

    n: int
    groups: int
    size: float
    """n0 = (N - sum(n_g^2) / N) / (G - 1), the effective group size; a little below the mean size for unequal groups."""
    within: float | None
    """Variance between values of one group; None when every group has one value."""
    between: float | None
    """Variance between the true means of groups. Negative when groups differ less than by chance."""

    @property
    def icc(self) -> float | None:
        """Share of the variance that lies between groups, ICC(1); None when undefined or nothing varies."""
        if self.within is None or self.between is None or self.between + self.within <= 0:
            return None
        return self.between / (self.between + self.within)


def one_way(values: Array, codes: Codes) -> OneWay:
    """Return the two variance components of values in at least two groups, numbered 0, 1, ...

    >>> split = one_way(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1]))
    >>> split.within, split.between, round(split.icc, 4)
    (0.5, 1.75, 0.7778)
    """
    sizes = np.bincount(codes)
    n, count = values.size, sizes.size
    means = np.bincount(codes, weights=values) / sizes
    size = float((n - np.square(sizes).sum() / n) / (count - 1))
    # One value per group: the variance within groups cannot be estimated.
    if n == count:
        return OneWay(n=n, groups=count, size=size, within=None, between=None)
    within = _mean_square(values - means[codes], np.ones(n), n - count, values)
    # The expected mean square between groups is within + n0 * between (Searle, Casella & McCulloch 1992, ch. 3).
    between = (_mean_square(means - values.mean(), sizes, count - 1, values) - within) / size
    return OneWay(n=n, groups=count, size=size, within=within, between=between)


def _mean_square(distances: Array, weights: Array | Codes, dof: int, values: Array) -> float:
    # Equal values leave rounding errors, which are not a variance.
    if np.all(np.abs(distances) <= ROUNDING * np.abs(values).max()):
        return 0.0
    return float((weights * np.square(distances)).sum()) / dof
