"""Quantiles of values that come in clusters: several replies to one sample, samples that share a passage.

A quantile is below a value where the share of values up to there is proven to exceed q (Woodruff 1952, JASA 47:635). Such a
share is a clustered proportion: it is proven by both bounds of a grouped rate, Clopper-Pearson's at the effective number of values
(Korn & Graubard 1998; R: survey::svyquantile(interval.type="beta") takes the variance at the quantile alone, here it is that of
each share) and Gaffke's, which gives each group one weight. Korn and Graubard's alone errs in up to 19 % at a nominal 5 % where
whole large groups are slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from pytest_crucible.stats.arrays import Array, Codes, Labels, Side, check_share, check_side, cluster_codes
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.proportions.clustered import effective_size

METHOD = "inverted korn-graubard and gaffke"


@dataclass(frozen=True, slots=True)
class ClusteredShares:
    """The distribution function of clustered values, with the design effect of each share."""

    values: Array
    """The distinct values, rising. Infinite ones have a rank, and need no arithmetic."""
    shares: Array
    """0, then the share of values up to each distinct value: one entry more."""
    effects: Array
    codes: Codes
    """The cluster of each value, in the order of the values."""
    clusters: int

    @property
    def size(self) -> int:
        return self.codes.size

    def up_to(self, place: int) -> Array:
        """Return 1 for each value that the share at this place counts, 0 for the others."""
        counted = round(float(self.shares[place]) * self.size)
        return (np.arange(self.size) < counted).astype(np.float64)


def clustered_shares(values: npt.ArrayLike, clusters: Labels) -> ClusteredShares:
    """Return the distribution function of values with one cluster label each. Raises NotEnoughData below five clusters."""
    array = np.asarray(values, dtype=np.float64)
    codes, count = cluster_codes(clusters, array.size)
    if count < FEWEST_CLUSTERS:
        raise NotEnoughData(f"{quantity(count, 'cluster')}: a cluster-robust interval needs at least {FEWEST_CLUSTERS}")
    order = np.argsort(array, kind="stable")
    array, codes = array[order], codes[order]
    last = np.append(array[1:] != array[:-1], True)
    kept = np.append(True, last)
    shares = np.arange(array.size + 1) / array.size
    return ClusteredShares(array[last], shares[kept], _design_effects(codes, count)[kept], codes, count)


def clustered_quantile_bound(shares: ClusteredShares, q: float, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound for the q-quantile: an observed value, or infinite if there are too few clusters."""
    check_share(q, "q")
    check_share(alpha, "alpha")
    check_side(side)
    if side == "lower":
        # The last value below which a share smaller than q is proven.
        place = _first(len(shares.shares), lambda k: not _is_below(shares, k, q, alpha)) - 1
        return -math.inf if place < 0 else float(shares.values[min(place, shares.values.size - 1)])
    place = _first(len(shares.shares), lambda k: _is_above(shares, k, q, alpha))
    return math.inf if place > shares.values.size else float(shares.values[max(place - 1, 0)])


def _is_below(shares: ClusteredShares, place: int, q: float, alpha: float) -> bool:
    """Return whether the upper bound of a share lies at q or below."""
    size = effective_size(shares.size, shares.clusters, float(shares.effects[place]), alpha)
    hits = float(shares.shares[place]) * size
    return bool(
        hits < size
        and scipy.special.betaincc(hits + 1, size - hits, q) <= alpha
        and gaffke_p_value(shares.up_to(place), null=q, end=1.0, side="upper", clusters=shares.codes) <= alpha
    )


def _is_above(shares: ClusteredShares, place: int, q: float, alpha: float) -> bool:
    """Return whether the lower bound of a share lies at q or above."""
    size = effective_size(shares.size, shares.clusters, float(shares.effects[place]), alpha)
    hits = float(shares.shares[place]) * size
    return bool(
        hits > 0
        and scipy.special.betainc(hits, size - hits + 1, q) <= alpha
        and gaffke_p_value(shares.up_to(place), null=q, end=0.0, side="lower", clusters=shares.codes) <= alpha
    )


def _first(size: int, holds: Callable[[int], bool]) -> int:
    """Return the first place from which a condition holds, `size` if nowhere. Shares rise, and so does their evidence."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _design_effects(codes: Codes, clusters: int) -> Array:
    """Return the design effects of the shares of the first 0, 1, ... n values, with a pseudo-cluster at each end.

    Without the two, a handful of clusters determines the effect near 0 and 1: see `korn_graubard_bound`.
    """
    sizes = np.bincount(codes).astype(np.float64)
    n, squares = float(sizes.sum()), float((sizes * sizes).sum())
    weight = squares / n
    # A value that is the k-th of its cluster (from 0) makes (k + 1)^2 of k^2.
    of_counts = np.append(0.0, np.cumsum(2 * _rank_in_cluster(codes) + 1)) + weight**2
    of_both = np.append(0.0, np.cumsum(sizes[codes])) + weight**2
    of_sizes, total = squares + 2 * weight**2, n + 2 * weight
    shares = (np.arange(codes.size + 1) + weight) / total
    between = of_counts - 2 * shares * of_both + shares**2 * of_sizes
    variance = (clusters + 2) / (clusters + 1) * between / total**2
    return np.asarray(variance * total / (shares * (1 - shares)), dtype=np.float64)


def _rank_in_cluster(codes: Codes) -> Codes:
    """Return how many earlier values have the same cluster."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    ranks = np.empty(codes.size, dtype=np.intp)
    ranks[order] = np.arange(codes.size) - np.repeat(starts, counts)
    return ranks
