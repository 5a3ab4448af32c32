"""Exact null distributions of rank statistics, with and without ties, by dynamic programming.

Tails are sums of positive terms, so that small p-values keep their digits. scipy.stats has the distributions without
ties only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pytest_crucible.stats.arrays import Array, check_choice

Method = Literal["auto", "exact", "asymptotic"]
"""auto: exact up to a fixed size, for any values."""

FUZZ = 10 * float(np.finfo(np.float64).eps)
"""A tail within this distance of its share counts as equal to it, as in R's qwilcox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The size up to which `auto` is exact, and the size above which "exact" is refused as too slow."""

    auto: int
    refused: int
    what: str


WINS = Limits(auto=10_000, refused=40_000, what="pairs of a candidate and a baseline value")
SIGNED = Limits(auto=200, refused=500, what="non-zero differences, or ten times as many with the zeros")
SWAPS = Limits(auto=49, refused=500, what="untied pairs of values")
ORDERS = Limits(auto=10, refused=10, what="pairs of values")


def is_exact(method: Method, size: int, limits: Limits) -> bool:
    """Return True to use the exact distribution. Raises ValueError for an unknown method and for too large a size."""
    check_choice(method, get_args(Method), "method")
    if method == "exact" and size > limits.refused:
        raise ValueError(
            f"the exact distribution is for at most {limits.refused} {limits.what}, not {size}: use method='asymptotic'"
        )
    return method == "exact" or (method == "auto" and size <= limits.auto)


def wins_tail(sizes: Sequence[int], first: int, doubled: int) -> float:
    """Return P(2 U <= doubled) for `first` values drawn from tied groups of these sizes, smallest values first.

    It is the conditional distribution given the ties; R: coin::wilcox_test(distribution = "exact").

    >>> wins_tail([1, 1, 1, 1], 2, 0) * 6, wins_tail([2, 2], 2, 0) * 6
    (1.0, 1.0)
    """
    n = sum(sizes)
    if doubled < 0:
        return 0.0
    # Without ties the distribution has a product formula, much faster than the tied recursion.
    if max(sizes) == 1:
        return untied_wins_tail(first, n - first, doubled // 2)
    return min(1.0, float(_tied_counts(sizes, first, doubled).sum()) / math.comb(n, first))


def untied_wins_tail(first: int, second: int, wins: int) -> float:
    """Return P(U <= wins) without ties; R: pwilcox(wins, first, second)."""
    distribution = untied_wins_distribution(first, second)
    if wins < distribution.size:
        return float(distribution[: wins + 1].sum())
    # The distribution is symmetric, and `distribution` has its lower half only.
    above = first * second - wins - 1
    return 1.0 - float(distribution[: above + 1].sum()) if above >= 0 else 1.0


def untied_wins_distribution(first: int, second: int) -> Array:
    """Return P(U = 0), P(U = 1), ... up to the middle, without ties; R: dwilcox.

    One more value in the smaller arm multiplies the generating function by (1 - q^(larger + i)) / (1 - q^i).

    >>> (untied_wins_distribution(2, 3) * 10).round(9).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    smaller, larger = sorted((first, second))
    distribution = np.zeros(smaller * larger // 2 + 1)
    distribution[0] = 1.0
    for i in range(1, smaller + 1):
        distribution[larger + i :] -= distribution[: -(larger + i)].copy()
        distribution = _cumulate(distribution, i) * (i / (larger + i))
    return distribution


def signed_tail(doubled_ranks: Sequence[int], doubled: int) -> float:
    """Return P(2 W <= doubled) when each rank counts with probability 1/2.

    R: psignrank; with ties coin::wilcoxsign_test.

    >>> signed_tail([2, 4, 6], 2) * 8
    2.0
    """
    return min(1.0, float(signed_rank_distribution(doubled_ranks, doubled).sum()))


def signed_rank_distribution(ranks: Sequence[int], largest: int) -> Array:
    """Return P(W = 0), ..., P(W = largest) for the sum W of ranks that each count with probability 1/2; R: dsignrank.

    >>> (signed_rank_distribution([1, 2, 3], 3) * 8).tolist()
    [1.0, 1.0, 1.0, 2.0]
    """
    distribution = np.zeros(max(largest, -1) + 1)
    distribution[:1] = 1.0
    reach = 1
    # Smallest rank first, so that the array is filled no further than necessary.
    for rank in sorted(ranks):
        reach = min(reach + rank, distribution.size)
        distribution[rank:reach] += distribution[: max(reach - rank, 0)].copy()
        distribution[:reach] *= 0.5
    return distribution


def rank_product_distribution(first: Sequence[int], second: Sequence[int]) -> tuple[Array, int]:
    """Return the distribution of sum(first[i] * second[p(i)]) over all n! orders p, and its smallest value.

    A state is the set of the second numbers already used. There are 2^n states, so n can be at most about 12.

    >>> distribution, start = rank_product_distribution([1, 2, 3], [1, 2, 3])
    >>> (distribution * 6).tolist(), start
    ([1.0, 2.0, 0.0, 2.0, 1.0], 10)
    """
    n = len(first)
    start = sum(a * b for a, b in zip(sorted(first), sorted(second, reverse=True), strict=True))
    largest = sum(a * b for a, b in zip(sorted(first), sorted(second), strict=True))
    masks = np.arange(1 << n)
    used = np.array([mask.bit_count() for mask in range(1 << n)])
    distributions = np.zeros((1 << n, largest + 1))
    distributions[0, 0] = 1.0
    for i, factor in enumerate(first):
        for j, other in enumerate(second):
            free = masks[(used == i) & (masks >> j & 1 == 0)]
            step = factor * other
            distributions[free | 1 << j, step:] += distributions[free, : largest + 1 - step] / (n - i)
    return distributions[-1, start:], start


def order_for(distribution: Array, tail: float) -> int:
    """Return the number of order statistics that a closed interval leaves out on one side; R: qwilcox, qsignrank.

    0 where even leaving out none errs in more than `tail`.
    """
    cumulative = np.cumsum(distribution)
    order = int(np.searchsorted(cumulative, tail - FUZZ))
    return order or int(cumulative[0] <= tail + FUZZ)


def _tied_counts(sizes: Sequence[int], first: int, limit: int) -> Array:
    """Return the numbers of draws with 2 U = 0, ..., limit, built up from one tied group to the next."""
    n, previous = sum(sizes), 0
    distributions = {0: np.ones(1)}
    for size in sizes:
        after = previous + size
        drawn = range(max(0, first - (n - after)), min(first, after) + 1)
        distributions = {total: _next_group(distributions, total, previous, size, limit) for total in drawn}
        previous = after
    return distributions[first]


def _next_group(distributions: dict[int, Array], total: int, previous: int, size: int, limit: int) -> Array:
    """Return the counts for `total` values drawn from the previous and the next group.

    i values of the next group beat all undrawn previous values and tie with the undrawn ones of their own group.
    """
    distribution = np.zeros(min(limit, 2 * total * (previous + size - total)) + 1)
    for before in range(max(0, total - size), min(previous, total) + 1):
        if before in distributions:
            i = total - before
            wins = i * (2 * (previous - before) + size - i)
            room = max(0, min(distributions[before].size, distribution.size - wins))
            distribution[wins : wins + room] += math.comb(size, i) * distributions[before][:room]
    return distribution


def _cumulate(distribution: Array, step: int) -> Array:
    """Return p[k] + p[k - step] + p[k - 2 step] + ... for each k."""
    padded = np.concatenate((distribution, np.zeros(-distribution.size % step)))
    return np.asarray(padded.reshape(-1, step).cumsum(axis=0).ravel()[: distribution.size])
