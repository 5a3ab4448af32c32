"""Quantiles, such as the 95th percentile of latency, with distribution-free intervals from order statistics.

They need no bounds, but in a small sample an end may lie beyond all observed values: it is then infinite.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from pytest_crucible.stats.arrays import Array, Side, check_share, check_side, finite
from pytest_crucible.stats.interval import Interval, NotEnoughData


def quantile_interval(values: npt.ArrayLike, q: float, *, level: float = 0.95) -> Interval:
    """Return an interval for the q-quantile between two observed values; an end outside the sample is infinite.

    Covers at least `level` for every distribution (David & Nagaraja 2003, 7.1). Raises NotEnoughData without values.

    >>> interval = quantile_interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0], 0.5)
    >>> interval.low, interval.high
    (1.0, 6.0)
    """
    check_share(level, "level")
    ordered = _sort_values(values)
    low_rank, high_rank = quantile_ranks(ordered.size, q, tail=(1 - level) / 2)
    low, high = _at(ordered, low_rank), _at(ordered, high_rank)
    return Interval(low=low, high=high, level=level, method="order statistics")


def quantile_estimate(values: npt.ArrayLike, q: float) -> float:
    """Return the q-quantile, linear between order statistics; R: quantile(x, q, type=7), numpy.quantile.

    Because it lies between observed values, it may fall just beyond an end of `quantile_interval` that is the smallest
    or largest of a handful of values.

    >>> quantile_estimate([3.0, 1.0, 2.0, 4.0], 0.5)
    2.5
    """
    check_share(q, "q")
    ordered = _sort_values(values)
    # Definition 7 of Hyndman & Fan 1996, R's and numpy's default.
    below, share = divmod((ordered.size - 1) * q, 1.0)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, ordered.size - 1)]
    return float(low + share * (high - low))


def quantile_bound(values: npt.ArrayLike, q: float, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound for the q-quantile: an observed value, or infinite when the sample is too small.

    >>> quantile_bound(range(1, 60), 0.95, alpha=0.05, side="upper")
    59.0
    >>> quantile_bound(range(1, 59), 0.95, alpha=0.05, side="upper")
    inf
    """
    check_side(side)
    ordered = _sort_values(values)
    low_rank, high_rank = quantile_ranks(ordered.size, q, tail=alpha)
    return _at(ordered, low_rank if side == "lower" else high_rank)


def quantile_ranks(n: int, q: float, *, tail: float) -> tuple[int, int]:
    """Return the ranks, from 1, of the order statistics that bound the q-quantile with error `tail` on each side.

    0 and n + 1 stand for minus and plus infinity.

    >>> quantile_ranks(60, 0.5, tail=0.025)
    (22, 39)
    """
    check_share(q, "q")
    check_share(tail, "tail")

    def at_most_below(k: int) -> float:
        """Return the probability that at most k values lie below the quantile."""
        return float(bdtr(k, n, q))

    # The largest rank whose order statistic lies above the quantile with probability at most `tail`.
    low = bisect_right(range(n), tail, key=at_most_below)
    high = bisect_left(range(n), 1 - tail, key=at_most_below) + 1
    return low, high


def _sort_values(values: npt.ArrayLike) -> Array:
    array = finite(values)
    if not array.size:
        raise NotEnoughData("no values: a quantile needs at least one")
    return np.sort(array)


def _at(ordered: Array, rank: int) -> float:
    if rank < 1:
        return -math.inf
    return float(ordered[rank - 1]) if rank <= ordered.size else math.inf
