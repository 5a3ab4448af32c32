"""The population stability index (PSI), and its mean without drift.

Its size without drift depends on the sample sizes, so the index alone shows nothing: with ten bins, its mean is .4 at n = 50.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.data_drift.categories import draw_tables

# Ten bins of equal counts are customary.
BINS = 10
# The standard error of the mean of so many tables is a twentieth of the spread of the index.
DRAWS = 400
# Half an observation in each bin: without it, an empty bin makes the index infinite.
_PRIOR = 0.5
# The distance of two numbers up to half the largest is finite.
_LARGEST = np.finfo(float).max / 2


def stability_of_numbers(old: npt.ArrayLike, new: npt.ArrayLike, *, seed: int = 0) -> tuple[float, float]:
    """Return the index over the deciles of both samples together, and its mean without drift."""
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    # Deciles are interpolated, and between infinities nothing can be: they are in the last bins anyway.
    pooled = np.clip(np.concatenate([first, second]), -_LARGEST, _LARGEST)
    edges = np.unique(np.quantile(pooled, np.arange(1, BINS) / BINS)) if len(pooled) else pooled
    counts = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (first, second)
    ]
    return stability_of_categories(counts[0].tolist(), counts[1].tolist(), seed=seed)


def stability_of_categories(old: Sequence[int], new: Sequence[int], *, seed: int = 0) -> tuple[float, float]:
    """Return the index of counts in one order, and its mean over permuted labels."""
    table = np.array([old, new], dtype=np.int64)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or table.sum(axis=1).min() < 1:
        return 0.0, 0.0
    totals = table.sum(axis=0)
    without = [_index(rows, totals - rows) for rows in draw_tables(table, DRAWS, seed)]
    return float(_index(table[0], table[1])), float(np.concatenate(without).mean())


def _index(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return sum (q - p) ln(q / p) over the last axis."""
    first, second = ((counts + _PRIOR) / (counts + _PRIOR).sum(axis=-1, keepdims=True) for counts in (old, new))
    index: npt.NDArray[np.float64] = ((second - first) * np.log(second / first)).sum(axis=-1)
    return index
