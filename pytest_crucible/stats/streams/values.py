"""Sums of the values of an arm, or of the differences of pairs, that decide about them, in one or two passes.

The first pass has counts, the exact sum, the ends and the distinct values as long as they are few; the second one sums around the
mean, by group and by block. The results are those of `inputs.Observed` to the last bit.
"""

from __future__ import annotations

import functools
import math
from dataclasses import field
from enum import Enum

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.exact_sums import ExactSum, GroupSums, exponent_of
from pytest_crucible.stats.inputs import Observed, keep_between
from pytest_crucible.stats.means.moments import Spread, check_enough, squared_distances
from pytest_crucible.stats.means.units import (
    MANY,
    PowerSums,
    UnitRows,
    check_clusters,
    replace_sums,
    rows_of_distinct,
    rows_of_groups,
)
from pytest_crucible.stats.resampling.draws import MOST_UNITS, Keys, Units, group_units, join_units
from pytest_crucible.stats.streams.blocks import BlockSums, KeyCounts

FEW = 4
"""So many comparisons take less time than a sort."""
_NO_KEY = np.iinfo(np.uint64).max


class Pass(Enum):
    """The passes, in their order; most streams need one or two."""

    RANGES = "counts, ends and the mean"
    KEYS = "numbers of keys"
    SUMS = "sums around the mean, by group and by block"
    DONE = "none"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Summary:
    """All that a method of the table needs of values."""

    n: int
    low: float
    high: float
    signs: tuple[int, int]
    spread: Spread
    rows: UnitRows
    groups: int | None = None
    blocks: Units | None = None


@dataclass(frozen=True, kw_only=True)
class Streamed(Observed):
    """Values that were added up batch by batch, and are not in memory."""

    summary: Summary

    @property
    def size(self) -> int:
        return self.summary.n

    @property
    def mean(self) -> float | None:
        spread = self.summary.spread
        return keep_between(spread.mean, spread.low, spread.high)

    @property
    def is_constant(self) -> bool:
        return self.summary.spread.is_constant

    @property
    def signs(self) -> tuple[int, int]:
        return self.summary.signs

    @property
    def spread(self) -> Spread:
        return self.summary.spread

    @property
    def groups(self) -> int | None:
        return self.summary.groups

    @property
    def units(self) -> UnitRows:
        if self.summary.groups is None and self.summary.n < 2:
            check_enough(np.full(self.summary.n, self.summary.low))
        if self.summary.groups is not None:
            check_clusters(self.summary.groups)
        return self.summary.rows

    def blocks(self, keys: Keys | None) -> Units:
        assert self.summary.blocks is not None, "the stream was declared without blocks"
        return self.summary.blocks


@dataclass(slots=True, kw_only=True)
class ValueStream:
    """Finite values of one arm, or differences of pairs, that are added batch by batch."""

    grouped: bool
    with_blocks: bool = False
    """A permutation test needs them; yes-or-no pairs without groups do not, which shows at the end of the first pass."""
    with_keys: bool = False
    """Keys are counted in the first pass, which saves one."""
    phase: Pass = Pass.RANGES
    n: int = 0
    total: ExactSum = field(default_factory=ExactSum)
    low: float = math.inf
    high: float = -math.inf
    above: int = 0
    below: int = 0
    distinct: Array | None = field(default_factory=lambda: np.array([]))
    counts: Codes = field(default_factory=lambda: np.array([], dtype=np.intp))
    first: tuple[Array, Keys] | None = field(default_factory=lambda: (np.array([]), np.array([], dtype=np.uint64)))
    """The first values, as long as each is a block of its own."""
    equal_to: float | None = None
    """What all values are taken for, as they differ by rounding alone."""
    keys: KeyCounts | None = None
    squares: ExactSum = field(default_factory=ExactSum)
    powers: PowerSums | None = None
    by_group: GroupSums | None = None
    first_keys: Keys = field(default_factory=lambda: np.array([], dtype=np.uint64))
    by_block: BlockSums | None = None

    @property
    def is_done(self) -> bool:
        return self.phase is Pass.DONE

    @property
    def mean(self) -> float:
        return self.total.value / self.n

    @property
    def _counts_keys(self) -> bool:
        in_first = self.phase is Pass.RANGES and self.with_blocks and self.with_keys and not self.grouped
        return in_first or self.phase is Pass.KEYS

    def add(self, values: Array, *, codes: Codes | None = None, keys: Keys | None = None) -> None:
        """Add values with the numbers of their groups, and with the keys of their samples."""
        if not values.size:
            return
        if self.phase is Pass.RANGES:
            self._add_ranges(values)
        if self.phase is Pass.RANGES and self.with_blocks and not self.grouped:
            self._add_first(values, keys)
        if keys is not None and self._counts_keys:
            self.keys = self.keys or KeyCounts()
            self.keys.add(keys)
        if self.phase is Pass.SUMS:
            self._add_sums(np.full_like(values, self.equal_to) if self.equal_to is not None else values, codes, keys)

    def end_pass(self) -> None:
        """Conclude a pass; the next one has other sums."""
        if not self.n:
            self.phase = Pass.DONE
        elif self.phase is Pass.RANGES:
            self._conclude_ranges()
        elif self.phase is Pass.KEYS:
            self._begin_sums()
        else:
            self.phase = Pass.DONE

    def take_as_equal(self) -> None:
        """Take all values for the smallest one."""
        self.equal_to, self.distinct, self.counts = self.low, np.array([self.low]), np.array([self.n])
        self.high, self.total = self.low, ExactSum()
        self.total.units = self.n * _units_of(self.low)
        self.above, self.below = (self.n if self.low > 0 else 0), (self.n if self.low < 0 else 0)
        if self.first is not None:
            self.first = np.full_like(self.first[0], self.low), self.first[1]

    def summary(self) -> Summary:
        """Return what was added. There is at least one value."""
        spread = Spread(self.n, self.mean, self.low, self.high, self.squares.value)
        rows, groups, blocks = self._rows(), None, None
        if self.by_group is not None:
            there = self.by_group.sizes > 0
            totals, sizes = self.by_group.totals()[there], self.by_group.sizes[there].astype(np.float64)
            largest = max(abs(self.low), abs(self.high))
            rows, groups = rows_of_groups(totals, sizes, largest), int(there.sum())
            if self.with_blocks:
                order = np.argsort(self.first_keys[there], kind="stable")
                blocks = join_units(Units(totals[order], sizes[order]))
        elif self.with_blocks and self.first is not None:
            blocks = group_units(self.first[0], None, self.first[1])
        elif self.by_block is not None:
            blocks = self.by_block.units()
        return Summary(
            n=self.n,
            low=self.low,
            high=self.high,
            signs=(self.above, self.below),
            spread=spread,
            rows=rows,
            groups=groups,
            blocks=blocks,
        )

    # -- the first pass -------------------------------------------------------------------------------------------

    def _add_ranges(self, values: Array) -> None:
        self.n += values.size
        if self._add_equals(values):
            return
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.above += int(np.count_nonzero(values > 0))
        self.below += int(np.count_nonzero(values < 0))
        self.total.add(values)
        if self.distinct is not None and not self.grouped:
            self._count_distinct(*np.unique(values, return_counts=True))

    def _add_equals(self, values: Array) -> bool:
        """Add values that are all among a few that were added before: yes and no, for instance. False if some are not."""
        if self.grouped or self.distinct is None or not 0 < self.distinct.size <= FEW:
            return False
        counts = [int(np.count_nonzero(values == each)) for each in self.distinct]
        if sum(counts) < values.size:
            return False
        self.counts = self.counts + np.array(counts, dtype=np.intp)
        for each, count in zip(self.distinct.tolist(), counts, strict=True):
            self.above += count if each > 0 else 0
            self.below += count if each < 0 else 0
            self.total.units += count * _units_of(each)
        return True

    def _count_distinct(self, values: Array, counts: Codes) -> None:
        assert self.distinct is not None, "there are not too many yet"
        distinct, places = np.unique(np.concatenate((self.distinct, values)), return_inverse=True)
        self.distinct = distinct if distinct.size <= MANY else None
        self.counts = np.bincount(places, weights=np.concatenate((self.counts, counts))).astype(np.intp)

    def _add_first(self, values: Array, keys: Keys | None) -> None:
        if keys is None:
            raise ValueError("a permutation test of a stream needs the keys of its samples: pass hash_ids(ids)")
        if self.first is not None and self.n <= MOST_UNITS:
            self.first = np.concatenate((self.first[0], values)), np.concatenate((self.first[1], keys))
        else:
            self.first = None

    def _conclude_ranges(self) -> None:
        needs_keys = self.with_blocks and not self.grouped and self.first is None
        if needs_keys and self.keys is None:
            self.phase = Pass.KEYS
        else:
            self.keys = self.keys if needs_keys else None
            self._begin_sums()

    # -- the last pass ----------------------------------------------------------------------------------------------

    def _begin_sums(self) -> None:
        self.phase = Pass.SUMS
        exponent = exponent_of(min(self.low, 0.0), max(self.high, 0.0))
        if self.grouped:
            self.by_group = GroupSums(exponent)
        if self.keys is not None:
            self.by_block, self.keys = BlockSums(self.keys.divide(), GroupSums(exponent, MOST_UNITS)), None
        if self.distinct is None:
            self.powers = PowerSums(self.mean, self.low, self.high)
        elif not self.grouped:
            squares = squared_distances(self.distinct, self.mean, self.low, self.high)
            for square, count in zip(squares.tolist(), self.counts.tolist(), strict=True):
                self.squares.units += count * _units_of(square)
            if self.by_block is None:
                self.phase = Pass.DONE

    def _add_sums(self, values: Array, codes: Codes | None, keys: Keys | None) -> None:
        if self.grouped or self.powers is not None:
            self.squares.add(squared_distances(values, self.mean, self.low, self.high))
        if self.powers is not None:
            self.powers.add(values)
        if self.by_block is not None and keys is not None:
            self.by_block.add(values, keys)
        if self.by_group is not None and codes is not None:
            self.by_group.add(codes, values)
            if keys is not None and self.with_blocks:
                self._grow_first_keys(self.by_group.sizes.size)
                np.minimum.at(self.first_keys, codes, keys)

    def _grow_first_keys(self, size: int) -> None:
        missing = size - self.first_keys.size
        if missing > 0:
            self.first_keys = np.pad(self.first_keys, (0, missing), constant_values=_NO_KEY)

    def _rows(self) -> UnitRows:
        if self.powers is not None:
            return replace_sums(self.powers).rows()
        if self.distinct is None or self.grouped:
            return rows_of_distinct(np.array([self.low, self.high]), np.array([0, 0]))
        return rows_of_distinct(self.distinct, self.counts)


@functools.lru_cache(maxsize=64)
def _units_of(number: float) -> int:
    total = ExactSum()
    total.add(np.array([number]))
    return total.units
