"""Samples with several yes-or-no replies, each of which is a group of its own: how many have so many of so many."""

from __future__ import annotations

from dataclasses import field

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.means.units import UnitRows

# The number of replies to a sample stays below it.
_BASE = 2**31


@dataclass(slots=True)
class UnitCounts:
    """Numbers of samples by (replies that count, replies)."""

    pairs: npt.NDArray[np.int64] = field(default_factory=lambda: np.array([], dtype=np.int64))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.array([], dtype=np.int64))

    def add(self, values: Array, samples: npt.NDArray[np.integer]) -> None:
        """Add all replies to some samples, 0 or 1, with the number of their sample in this batch."""
        numbers = np.bincount(samples)
        totals = np.bincount(samples, weights=values).astype(np.int64)[numbers > 0]
        pairs, counts = np.unique(totals * _BASE + numbers[numbers > 0], return_counts=True)
        self.pairs, places = np.unique(np.concatenate((self.pairs, pairs)), return_inverse=True)
        self.counts = np.bincount(places, weights=np.concatenate((self.counts, counts))).astype(np.int64)

    @property
    def has_several(self) -> bool:
        return bool((self.pairs % _BASE > 1).any())

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def rows(self) -> UnitRows:
        totals, sizes = (self.pairs // _BASE).astype(np.float64), (self.pairs % _BASE).astype(np.float64)
        means = totals / sizes
        largest = float(totals.any())
        times = self.counts.astype(np.float64)
        low, high = float(means.min()), float(means.max())
        return UnitRows(totals=totals, sizes=sizes, times=times, low=low, high=high, largest=largest)
