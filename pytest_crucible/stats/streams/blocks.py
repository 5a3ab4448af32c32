"""The blocks of a permutation test, in two passes: numbers of keys first, then the sums of the blocks.

In the first pass keys are counted by their upper bits. That gives the place of each block's first key but for a few hundred others
with the same upper bits, which the second pass keeps.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import field

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.exact_sums import GroupSums
from pytest_crucible.stats.resampling.draws import MOST_UNITS, Keys, Units, first_ranks

# 8 MB of counts: of 10^8 keys, 100 have the same upper bits.
_BITS = 20
_SHIFT = np.uint64(64 - _BITS)


@dataclass(slots=True)
class KeyCounts:
    """Numbers of keys by their upper bits."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(2**_BITS, dtype=np.int64))

    def add(self, keys: Keys) -> None:
        np.add.at(self.counts, _upper_bits(keys), 1)

    def divide(self) -> KeyBlocks:
        """Return the blocks of more than 2,000 keys as far as the upper bits tell them."""
        ends = np.cumsum(self.counts)
        starts, ranks = ends - self.counts, first_ranks(int(ends[-1]))[1:]
        before = np.searchsorted(ranks, starts, side="right")
        inside = np.searchsorted(ranks, ends, side="left") > before
        return KeyBlocks(
            np.where(inside, MOST_UNITS, before).astype(np.int16), starts[inside], np.flatnonzero(inside), ranks
        )


@dataclass(slots=True)
class KeyBlocks:
    """The block of each key by its upper bits; `MOST_UNITS`, which no block has, if a block begins among keys with these bits."""

    of_bits: npt.NDArray[np.int16]
    starts: npt.NDArray[np.int64]
    """The rank of the first key of each of those where a block begins."""
    bits: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]

    def number(self, ordered: Keys) -> Codes:
        """Return the blocks of all keys with upper bits where a block begins, in their order."""
        bits = _upper_bits(ordered)
        sizes = np.searchsorted(bits, self.bits, side="right") - np.searchsorted(bits, self.bits, side="left")
        # From a rank among all keys to one among these.
        here = np.arange(ordered.size) + np.repeat(self.starts - (np.cumsum(sizes) - sizes), sizes)
        firsts = ordered[np.searchsorted(here, self.ranks[np.isin(self.ranks, here)])]
        of_first = np.flatnonzero(np.isin(self.ranks, here)) + 1
        codes = np.searchsorted(self.ranks, np.repeat(self.starts, sizes), side="right")
        place = np.searchsorted(firsts, ordered, side="right")
        is_after = (place > 0) & (_upper_bits(firsts[np.maximum(place - 1, 0)]) == bits)
        return np.where(is_after, of_first[np.maximum(place - 1, 0)], codes)


@dataclass(slots=True)
class BlockSums:
    """The sums of blocks of values, in the second pass."""

    blocks: KeyBlocks
    sums: GroupSums
    keys: Keys = field(default_factory=lambda: np.array([], dtype=np.uint64))
    values: Array = field(default_factory=lambda: np.array([]))

    def add(self, values: Array, keys: Keys) -> None:
        codes = self.blocks.of_bits[_upper_bits(keys)]
        (later,) = np.nonzero(codes == MOST_UNITS)
        self.values = np.concatenate((self.values, values[later]))
        self.keys = np.concatenate((self.keys, keys[later]))
        self.sums.add(codes, values)

    def units(self) -> Units:
        order = np.argsort(self.keys, kind="stable")
        whole = deepcopy(self.sums)
        whole.add(self.blocks.number(self.keys[order]), self.values[order])
        return Units(whole.totals()[:MOST_UNITS], whole.sizes[:MOST_UNITS].astype(np.float64))


def _upper_bits(keys: Keys) -> npt.NDArray[np.int64]:
    return (keys >> _SHIFT).astype(np.int64)
