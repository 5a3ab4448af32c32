"""Order statistics of all sums row_i + column_j, without storing the sums.

Used for the medians of all x_i - y_j and of all averages (d_i + d_j) / 2; 10,000 values have 1e8 of them.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes

_GATHERED = 20_000
"""At most this many remaining sums are stored and partitioned."""


def sum_of_rank(rows: Array, columns: Array, starts: Codes, rank: int) -> float:
    """Return the sum of this rank, from 1, among all rows[i] + columns[j] with j >= starts[i]; `columns` ascend.

    Johnson & Mizoguchi 1978 (SIAM J. Comput. 7:147): a weighted median of the rows' medians splits what remains, and
    at least a quarter of it falls away each time. Exact to the last bit, because only true sums are compared.

    >>> sum_of_rank(np.array([0.0, 5.0]), np.array([1.0, 2.0]), np.zeros(2, dtype=np.intp), 3)
    6.0
    """
    low, high = starts.copy(), np.full(rows.size, columns.size, dtype=np.intp)
    below = rank - 1
    while (remaining := int((high - low).sum())) > _GATHERED:
        # Weighted by the number of sums left in each row: at least a quarter lies on either side of the pivot.
        pivot = _weighted_median(rows, columns, low, high)
        smaller = _first(rows, columns, low, high, pivot, equal=True)
        count = int((smaller - low).sum())
        if below < count:
            high = smaller
        else:
            larger = _first(rows, columns, smaller, high, pivot, equal=False)
            if below < (upto := int((larger - low).sum())):
                return pivot
            low, below = larger, below - upto
        keep = high > low
        rows, low, high = rows[keep], low[keep], high[keep]
    return float(np.partition(_gather(rows, columns, low, high, remaining), below)[below])


def _weighted_median(rows: Array, columns: Array, low: Codes, high: Codes) -> float:
    medians = rows + columns[(low + high) // 2]
    order = np.argsort(medians)
    weights = np.cumsum((high - low)[order])
    return float(medians[order[np.searchsorted(weights, weights[-1] / 2)]])


def _first(rows: Array, columns: Array, low: Codes, high: Codes, pivot: float, *, equal: bool) -> Codes:
    """Return for each row the first column whose sum is above (or not below) the pivot, by bisection in all rows."""
    low, high = low.copy(), high.copy()
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        sums = rows + columns[np.minimum(middle, columns.size - 1)]
        right = ((sums < pivot) if equal else (sums <= pivot)) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    return low


def _gather(rows: Array, columns: Array, low: Codes, high: Codes, count: int) -> Array:
    sizes = high - low
    offsets = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(rows, sizes) + columns[np.repeat(low, sizes) + offsets])
