"""One-sided bounds of a mean over random factors whose levels need not be normal: Gaffke's bound for each factor.

A prompt in ten that breaks is not seen among three, and a t quantile does not count it: with 3 to 10 levels such bounds err in
9 to 31 % at a nominal 5 %. Gaffke's bound over the levels' means holds given the samples, and the one over the samples' means
holds given the levels. The distance of the bound from the mean is the root of the sum of their squared distances, as that of
independent errors. The interaction of samples and levels is in both, which errs on the safe side.

k levels alike leave a chance of alpha that a share 1 - alpha^(1 / k) of all levels breaks, so that no valid bound over k levels is
closer than that share of the range: 3 levels decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pytest_crucible.stats.arrays import Array, Labels, Range, Side
from pytest_crucible.stats.factors.levels import level_effects
from pytest_crucible.stats.means.gaffke import gaffke_bound
from pytest_crucible.stats.planning.roots import bracketed_root

# The tail of a p-value is found on the normal scale, between these quantiles: from 0.5 to 1e-300.
_CENTRE, _FARTHEST = 0.0, -37.0
_RESOLUTION = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMeans:
    """The mean at each level of one factor (or of each sample), as parts of a mean or of a difference."""

    values: Array
    ends: Range | None = None
    """The ends of the values; None: those of the mean itself."""
    clusters: Labels | None = None

    def distance(self, side: Side, alpha: float, ends: Range) -> float:
        """Return how far the bound over these values lies from their mean."""
        low, high = self.ends or ends
        # Averages of replies, and effects of incomplete tables, lie beyond their end by a little.
        inside = np.clip(self.values, low, high)
        end, mean = low if side == "lower" else high, float(inside.mean())
        if inside.size < 2:
            return abs(mean - end)
        bound = gaffke_bound(inside, end=end, alpha=alpha, side=side, clusters=self.clusters)
        # At large alphas the bound of skewed values passes their mean.
        return max(mean - bound if side == "lower" else bound - mean, 0.0)


def means_of_levels(table: Array, ends: Range | None = None, sign: float = 1.0) -> LevelMeans:
    """Return the level means of a table of samples x levels, in which NaN is lost; `sign` is -1 for a baseline's own.

    They are within samples, so that a level is not better because it lost hard samples.
    """
    table = table[:, ~np.isnan(table).all(axis=0)]
    if table.shape[1] < 2:
        return LevelMeans(values=sign * np.nanmean(table, axis=0), ends=_mirror(ends, sign))
    seen = ~np.isnan(table)
    sample_means = np.where(seen, table, 0.0).sum(axis=1) / seen.sum(axis=1)
    return LevelMeans(values=sign * (sample_means.mean() + level_effects(table)[0]), ends=_mirror(ends, sign))


def bound_distance(parts: Sequence[LevelMeans], side: Side, alpha: float, ends: Range) -> float:
    """Return how far the bound that counts samples and all factors lies from the mean."""
    return math.hypot(*(part.distance(side, alpha, ends) for part in parts))


def tail_of_distance(parts: Sequence[LevelMeans], side: Side, distance: float, ends: Range) -> float:
    """Return the smallest alpha, up to 1/2, at which the bound on that side is at most this far from the mean."""

    def excess(quantile: float) -> float:
        return distance - bound_distance(parts, side, float(scipy.special.ndtr(quantile)), ends)

    at_centre, at_farthest = excess(_CENTRE), excess(_FARTHEST)
    if at_centre <= 0:
        return 0.5
    if at_farthest >= 0:
        return float(scipy.special.ndtr(_FARTHEST))
    # The distance is nearly a straight line of the quantile, which takes few steps.
    root = bracketed_root(excess, _FARTHEST, at_farthest, _CENTRE, at_centre, error=_RESOLUTION)
    return float(scipy.special.ndtr(root))


def fewest_levels(best: float, limit: float, end: float, alpha: float) -> int | None:
    """Return the levels with which a one-sided bound can pass a limit at all, if every value is `best`; None if none can.

    `end` is the end of the range on the side of the bound.

    >>> fewest_levels(1.0, 0.0, -1.0, 0.05), fewest_levels(1.0, 0.9, 0.0, 0.05)
    (5, 29)
    """
    share = (limit - end) / (best - end)
    if share <= 0:
        return 2
    return None if share >= 1 else max(2, math.floor(math.log(alpha) / math.log(share)) + 1)


def _mirror(ends: Range | None, sign: float) -> Range | None:
    return ends if ends is None or sign > 0 else (-ends[1], -ends[0])
