"""Exact laws of rank statistics under the null hypothesis, with and without ties: dynamic programming, no simulation.

Tails are sums of positive terms, so that small p-values keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pytest_crucible.stats.observations import Array, check_choice

Method = Literal["auto", "exact", "asymptotic"]
"""auto: exact up to a size that is counted, never judged by what the values look like."""

FUZZ = 10 * float(np.finfo(np.float64).eps)
"""A tail that reaches its share up to this much has reached it, as in R's qwilcox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Up to which size `auto` is exact, and above which size "exact" is refused because it would take too long."""

    auto: int
    refused: int
    what: str


WINS = Limits(auto=10_000, refused=40_000, what="pairs of a candidate and a baseline value")
SIGNED = Limits(auto=200, refused=500, what="non-zero differences, or ten times as many with the zeros")
SWAPS = Limits(auto=49, refused=500, what="untied pairs of values")
ORDERS = Limits(auto=10, refused=10, what="pairs of values")


def is_exact(method: Method, size: int, limits: Limits) -> bool:
    """Whether the exact law is used. Raises ValueError for an unknown method and for "exact" beyond its limit."""
    check_choice(method, get_args(Method), "method")
    if method == "exact" and size > limits.refused:
        raise ValueError(f"the exact law is for at most {limits.refused} {limits.what}, not {size}: ask for asymptotic")
    return method == "exact" or (method == "auto" and size <= limits.auto)


def wins_tail(sizes: Sequence[int], first: int, doubled: int) -> float:
    """P(2 U <= doubled) for `first` values drawn from tied groups of the given sizes, smallest values first.

    The conditional law given the ties; coin::wilcox_test(distribution = "exact").

    >>> wins_tail([1, 1, 1, 1], 2, 0) * 6, wins_tail([2, 2], 2, 0) * 6
    (1.0, 1.0)
    """
    n = sum(sizes)
    if doubled < 0:
        return 0.0
    if max(sizes) == 1:
        return untied_wins_tail(first, n - first, doubled // 2)
    return min(1.0, float(_tied_counts(sizes, first, doubled).sum()) / math.comb(n, first))


def untied_wins_tail(first: int, second: int, wins: int) -> float:
    """P(U <= wins) without ties; R: pwilcox(wins, first, second)."""
    law = untied_wins_law(first, second)
    if wins < law.size:
        return float(law[: wins + 1].sum())
    above = first * second - wins - 1  # the law is symmetric, and only its lower half is known
    return 1.0 - float(law[: above + 1].sum()) if above >= 0 else 1.0


def untied_wins_law(first: int, second: int) -> Array:
    """P(U = 0), P(U = 1), ... up to the middle, without ties; R: dwilcox.

    One more value in the smaller arm multiplies the generating function by (1 - q^(larger + i)) / (1 - q^i).

    >>> (untied_wins_law(2, 3) * 10).round(9).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    smaller, larger = sorted((first, second))
    law = np.zeros(smaller * larger // 2 + 1)
    law[0] = 1.0
    for i in range(1, smaller + 1):
        law[larger + i :] -= law[: -(larger + i)].copy()
        law = _cumulated(law, i) * (i / (larger + i))
    return law


def signed_tail(doubled_ranks: Sequence[int], doubled: int) -> float:
    """P(2 W <= doubled) where each rank counts with probability 1/2; R: psignrank, and coin::wilcoxsign_test for ties.

    >>> signed_tail([2, 4, 6], 2) * 8
    2.0
    """
    return min(1.0, float(signed_law(doubled_ranks, doubled).sum()))


def signed_law(ranks: Sequence[int], largest: int) -> Array:
    """P(W = 0), ..., P(W = largest) for the sum W of ranks that each count with probability 1/2; R: dsignrank.

    >>> (signed_law([1, 2, 3], 3) * 8).tolist()
    [1.0, 1.0, 1.0, 2.0]
    """
    law = np.zeros(max(largest, -1) + 1)
    law[:1] = 1.0
    reach = 1
    for rank in sorted(ranks):
        reach = min(reach + rank, law.size)
        law[rank:reach] += law[: max(reach - rank, 0)].copy()
        law[:reach] *= 0.5
    return law


def swaps_tail(n: int, swaps: int) -> float:
    """P(at most that many of the n (n - 1) / 2 pairs are in the wrong order) over all orders; R's pkendall.

    >>> swaps_tail(3, 1) * 6
    3.0
    """
    law = np.ones(1)
    for i in range(2, n + 1):
        law = np.convolve(law, np.full(i, 1 / i))[: swaps + 1]
    return min(1.0, float(law.sum()))


def products_law(first: Sequence[int], second: Sequence[int]) -> tuple[Array, int]:
    """Law of sum(first[i] * second[p(i)]) over all n! orders p, and the value at which it starts.

    A state is the set of the second numbers that are used up: 2^n of them, so n is at most 12 or so.

    >>> law, start = products_law([1, 2, 3], [1, 2, 3])
    >>> (law * 6).tolist(), start
    ([1.0, 2.0, 0.0, 2.0, 1.0], 10)
    """
    n = len(first)
    start = sum(a * b for a, b in zip(sorted(first), sorted(second, reverse=True), strict=True))
    largest = sum(a * b for a, b in zip(sorted(first), sorted(second), strict=True))
    masks = np.arange(1 << n)
    used = np.array([mask.bit_count() for mask in range(1 << n)])
    laws = np.zeros((1 << n, largest + 1))
    laws[0, 0] = 1.0
    for i, factor in enumerate(first):
        for j, other in enumerate(second):
            free = masks[(used == i) & (masks >> j & 1 == 0)]
            step = factor * other
            laws[free | 1 << j, step:] += laws[free, : largest + 1 - step] / (n - i)
    return laws[-1, start:], start


def order_for(law: Array, tail: float) -> int:
    """How many order statistics from the outside a closed interval may leave out on one side: R's qwilcox, qsignrank.

    0 where even the extreme one errs in more than `tail`.
    """
    cumulative = np.cumsum(law)
    order = int(np.searchsorted(cumulative, tail - FUZZ))
    return order or int(cumulative[0] <= tail + FUZZ)


def _tied_counts(sizes: Sequence[int], first: int, limit: int) -> Array:
    """Number of draws with 2 U = 0, ..., limit; group by group, for each number of drawn values among those seen."""
    n, seen = sum(sizes), 0
    laws = {0: np.ones(1)}
    for size in sizes:
        after = seen + size
        drawn = range(max(0, first - (n - after)), min(first, after) + 1)
        laws = {total: _next_group(laws, total, seen, size, limit) for total in drawn}
        seen = after
    return laws[first]


def _next_group(laws: dict[int, Array], total: int, seen: int, size: int, limit: int) -> Array:
    """`total` values drawn among the seen and the next group: i of the group beat the others seen and tie inside."""
    law = np.zeros(min(limit, 2 * total * (seen + size - total)) + 1)
    for before in range(max(0, total - size), min(seen, total) + 1):
        if before in laws:
            i = total - before
            wins = i * (2 * (seen - before) + size - i)
            room = max(0, min(laws[before].size, law.size - wins))
            law[wins : wins + room] += math.comb(size, i) * laws[before][:room]
    return law


def _cumulated(law: Array, step: int) -> Array:
    """law[k] + law[k - step] + law[k - 2 step] + ..."""
    padded = np.concatenate((law, np.zeros(-law.size % step)))
    return np.asarray(padded.reshape(-1, step).cumsum(axis=0).ravel()[: law.size])
