"""Observed and expected disagreement of ratings: the two parts of Krippendorff's alpha.

Each scale evaluates many weightings of the units at once (bootstrap resamples are weightings), as resamples x units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pytest_crucible.stats.agreement.coefficients import MISSING, tabulate_codes
from pytest_crucible.stats.arrays import ROUNDING, Array, Codes

# Entries of the largest table units x categories (160 MB); the interval scale needs no table.
LARGEST_TABLE = 20_000_000


class Disagreement(Protocol):
    """The squared distances of one scale over the ratings of some units."""

    @property
    def largest(self) -> float:
        """The largest squared distance of two ratings that occur."""

    def parts(self, weights: Array) -> tuple[Array, Array]:
        """Return observed and expected disagreement for each row of `weights`, resamples x units."""


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Any squared distances of categories, as on the nominal and the ratio scale."""

    table: Array
    squares: Array

    @property
    def largest(self) -> float:
        """The largest squared distance of two ratings that occur."""
        return float(self.squares.max())

    def parts(self, weights: Array) -> tuple[Array, Array]:
        """Return both parts by matrix products with the table units x categories."""
        sizes = self.table.sum(axis=1)
        within = ((self.table @ self.squares) * self.table).sum(axis=1) / (sizes - 1)
        counts, n = weights @ self.table, weights @ sizes
        across = ((counts @ self.squares) * counts).sum(axis=1) / (n - 1)
        return weights @ within / n, across / n


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The ordinal scale: the squared difference of mid-ranks, recomputed for each resample.

    Krippendorff's sum of the counts between two categories, less half of both, is the difference of their mid-ranks.
    """

    table: Array

    @property
    def largest(self) -> float:
        """The squared distance of the first and the last category."""
        ranks = _mid_ranks(self.table.sum(axis=0))
        return float((ranks[-1] - ranks[0]) ** 2)

    def parts(self, weights: Array) -> tuple[Array, Array]:
        """Return both parts: sums of (rank - rank)^2 over pairs are sums of squares less products of sums."""
        sizes = self.table.sum(axis=1)
        counts, n = weights @ self.table, weights @ sizes
        # Centred, so that the squares below keep their digits.
        ranks = _mid_ranks(counts) - n[:, None] / 2
        squares = ranks * ranks
        totals = ranks @ self.table.T
        paired = (weights * (totals * totals / (sizes - 1))).sum(axis=1)
        same_category = ((weights @ (self.table / (sizes - 1)[:, None])) * squares).sum(axis=1)
        all_squares, total = (counts * squares).sum(axis=1), (counts * ranks).sum(axis=1)
        return 2 * (all_squares + same_category - paired) / n, 2 * (n * all_squares - total * total) / (n * (n - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The interval scale: the squared difference of ratings, for which sums and squares suffice."""

    sizes: Array
    sums: Array
    """Each unit's ratings less the mean of all ratings."""
    squares: Array
    within: Array
    """Each unit's squared deviations from its own mean."""
    largest: float

    def parts(self, weights: Array) -> tuple[Array, Array]:
        """Return both parts: sums of (x - y)^2 over pairs are sums of squares less products of sums."""
        n, total = weights @ self.sizes, weights @ self.sums
        across = 2 * (n * (weights @ self.squares) - total * total) / (n * (n - 1))
        # A resample of equal ratings must have no disagreement, not a rounding error of one.
        across[across <= ROUNDING * self.largest] = 0.0
        return 2 * (weights @ (self.sizes * self.within / (self.sizes - 1))) / n, across


def nominal(codes: Codes, points: Array) -> Distances:
    """Return the squared distances on the nominal scale: 0 for equal categories, 1 for different ones."""
    return Distances(_table(codes, points.size), 1 - np.eye(points.size))


def ordinal(codes: Codes, points: Array) -> Ranks:
    """Return the squared distances on the ordinal scale, where categories have an order."""
    return Ranks(_table(codes, points.size))


def ratio(codes: Codes, points: Array) -> Distances:
    """Return the squared distances on the ratio scale: ((a - b) / (a + b))^2 for ratings from 0 up.

    Raises ValueError for negative ratings.
    """
    negative = int((points < 0).sum())
    if negative:
        raise ValueError(f"{negative} of {points.size} distinct ratings are negative: a ratio scale starts at 0")
    table, total = _table(codes, points.size), np.add.outer(points, points)
    apart = np.subtract.outer(points, points)
    return Distances(table, np.divide(apart, total, out=np.zeros_like(apart), where=total > 0) ** 2)


def interval(codes: Codes, points: Array) -> Moments:
    """Return the interval scale: ratings are numbers whose differences count."""
    present = codes != MISSING
    sizes = present.sum(axis=0).astype(np.float64)
    values = np.where(present, points[codes], 0.0)
    # Centring first keeps the digits of ratings with a large mean.
    values = np.where(present, values - values.sum() / sizes.sum(), 0.0)
    sums = values.sum(axis=0)
    within = (np.where(present, values - sums / sizes, 0.0) ** 2).sum(axis=0)
    return Moments(sizes, sums, (values * values).sum(axis=0), within, float(np.ptp(points)) ** 2)


SCALES: dict[str, Callable[[Codes, Array], Disagreement]] = {
    "nominal": nominal,
    "ordinal": ordinal,
    "interval": interval,
    "ratio": ratio,
}


def _table(codes: Codes, categories: int) -> Array:
    # The ratio scale needs categories x categories as well.
    cells = max(codes.shape[1], categories) * categories
    if cells > LARGEST_TABLE:
        raise ValueError(
            f"{categories} distinct ratings of {codes.shape[1]} units need a table of {cells} entries: round the "
            f'ratings, or take scale="interval"'
        )
    return tabulate_codes(codes, categories).astype(np.float64)


def _mid_ranks(counts: Array) -> Array:
    return np.asarray(np.cumsum(counts, axis=-1) - counts / 2, dtype=np.float64)
