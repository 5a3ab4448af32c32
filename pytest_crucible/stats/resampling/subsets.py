"""The sums that arise when the members of two groups are exchanged: counts of subsets, or a random sample of them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pytest_crucible.stats.arrays import Array

# Up to this many values all subsets of a size are counted, from two lists of at most 2^17 sums.
MOST_SPLIT = 34
# Up to this many subsets they are listed, however many values there are.
MOST_LISTED = 200_000
# Random keys drawn at once: they stay in the processor's cache.
CELLS = 20_000


def can_count(n: int, size: int) -> bool:
    """Return True when `count_subsets_at_least` is quick.

    >>> can_count(30, 15), can_count(500, 2), can_count(60, 30)
    (True, True, False)
    """
    # A larger smaller arm means at least 2^18 subsets; checking it first avoids a huge binomial coefficient.
    is_small = min(size, n - size) <= 17
    return n <= MOST_SPLIT or (is_small and math.comb(n, size) <= MOST_LISTED)


def count_subsets_at_least(values: Array, size: int, threshold: float) -> int:
    """Return how many subsets of this size have a sum >= threshold, out of n choose size.

    >>> count_subsets_at_least(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5.0)
    4
    """
    if values.size > MOST_SPLIT:
        members = itertools.chain.from_iterable(itertools.combinations(range(values.size), size))
        picks = np.fromiter(members, dtype=np.intp).reshape(-1, size)
        return int(np.sum(values[picks].sum(axis=1) >= threshold))
    # Every subset is one of the first half and one of the second: two short lists instead of one long one.
    first, second = _sums_by_size(values[: values.size // 2]), _sums_by_size(values[values.size // 2 :])
    count = 0
    for taken_from_first, sums in enumerate(first):
        if 0 <= size - taken_from_first < len(second):
            others = second[size - taken_from_first]
            count += int(np.sum(others.size - np.searchsorted(others, threshold - sums, side="left")))
    return count


def draw_subset_sums(values: Array, size: int, draws: int, rng: np.random.Generator) -> Array:
    """Return sums of random subsets of this size, without replacement inside a subset.

    >>> draw_subset_sums(np.array([1.0, 1.0, 1.0]), 2, 3, np.random.default_rng(0)).tolist()
    [2.0, 2.0, 2.0]
    """
    rows, pieces = max(1, CELLS // values.size), []
    for start in range(0, draws, rows):
        # The smallest keys of a row mark a random subset: partitioning is faster than shuffling.
        keys = rng.random((min(rows, draws - start), values.size))
        pieces.append(values[np.argpartition(keys, size - 1, axis=1)[:, :size]].sum(axis=1))
    return np.concatenate(pieces)


def _sums_by_size(values: Array) -> list[Array]:
    """Return ascending sums of all subsets, by their number of members."""
    sums, sizes = np.zeros(1), np.zeros(1, dtype=np.int8)
    for value in values.tolist():
        sums, sizes = np.concatenate((sums, sums + value)), np.concatenate((sizes, sizes + np.int8(1)))
    return [np.sort(sums[sizes == size]) for size in range(values.size + 1)]
