"""Order statistics in two passes: numbers of values by their leading bits, then the values around the rank that is looked for.

The bits of a float, read as a whole number, are in the order of the floats. A percentile's bounds are order statistics near it, at
any error rate of at least `SMALLEST_TAIL`; the values from the farthest of them to the other are kept with their numbers.
"""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.ranks.quantiles import SMALLEST_TAIL, quantile_rank, quantile_ranks
from pytest_crucible.stats.streams.values import Pass

# Sign, exponent and eight bits of the mantissa, 8 MB of counts: the width of a bin is a part in 256 of its values.
_BITS = 20
_SHIFT = np.uint64(64 - _BITS)
_SIGN = np.uint64(1) << np.uint64(63)

Bits = npt.NDArray[np.uint64]


def sortable_bits(values: Array) -> Bits:
    """Return whole numbers in the order of the values.

    >>> bits = sortable_bits(np.array([-2.0, -1.0, 0.0, 1.0, np.inf]))
    >>> bool((np.diff(bits.astype(float)) > 0).all())
    True
    """
    # Adding 0.0 makes -0.0 the same number as 0.0.
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


@dataclass(slots=True)
class OrderStream:
    """The q-quantile of values, which may be infinite, with the order statistics around it."""

    q: float
    phase: Pass = Pass.RANGES
    n: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(2**_BITS, dtype=np.int64))
    bins: tuple[int, int] = (0, 0)
    below: int = 0
    """Values in lower bins than those that are kept."""
    values: Array = field(default_factory=lambda: np.array([]))
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.array([], dtype=np.int64))

    @property
    def is_done(self) -> bool:
        return self.phase is Pass.DONE

    def add(self, values: Array) -> None:
        bins = (sortable_bits(values) >> _SHIFT).astype(np.int64)
        if self.phase is Pass.RANGES:
            self.n += values.size
            np.add.at(self.counts, bins, 1)
        elif self.phase is Pass.SUMS:
            near = values[(bins >= self.bins[0]) & (bins <= self.bins[1])]
            near, numbers = np.unique(near, return_counts=True)
            self.values, places = np.unique(np.concatenate((self.values, near)), return_inverse=True)
            weights = np.concatenate((self.numbers, numbers))
            self.numbers = np.bincount(places, weights=weights, minlength=self.values.size).astype(np.int64)

    def end_pass(self) -> None:
        """Conclude a pass; the second one keeps values near the quantile."""
        if self.phase is Pass.SUMS or not self.n:
            self.phase = Pass.DONE
            return
        low, high = quantile_ranks(self.n, self.q, tail=SMALLEST_TAIL)
        ends = np.cumsum(self.counts)
        first, last = (int(np.searchsorted(ends, min(max(rank, 1), self.n))) for rank in (low, high))
        self.bins, self.below = (first, last), int(ends[first] - self.counts[first])
        self.counts, self.phase = np.array([], dtype=np.int64), Pass.SUMS

    def at(self, rank: int) -> float:
        """Return the value with this rank, from 1; infinite beyond the first and the last."""
        if rank < 1:
            return -math.inf
        if rank > self.n:
            return math.inf
        return float(self.values[np.searchsorted(np.cumsum(self.numbers), rank - self.below)])

    @property
    def quantile(self) -> float:
        return self.at(quantile_rank(self.n, self.q))
