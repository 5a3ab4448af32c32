"""Blocks of samples: pulled from the units of a run, dealt in random order, and dealt again where a worker is lost."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Unit

BLOCK_SAMPLES = 64
"""Samples of a block: a message of about 100 kB, and as many as one worker has in flight at a time."""
LOOK_SAMPLES = 16
"""Samples of a block of a run that looks at the first samples before the last ones are sent, and that blocks overshoot."""


@dataclass(slots=True)
class Block:
    """Units of some samples that one worker sends: all that the run's iterator has of these samples in a row."""

    number: int
    """From 1, in the order in which they were pulled from the iterator, over all rounds of an experiment."""
    round: int
    units: list[Unit] = field(default_factory=list)
    dealt: int = 0
    is_stored: bool = False

    @property
    def positions(self) -> list[int]:
        return list(dict.fromkeys(unit.position for unit in self.units))


class BlockQueue:
    """Deals the blocks of one round; those of lost workers come first."""

    def __init__(
        self,
        units: Iterator[Unit],
        *,
        round: int,
        first: int,
        choose_among: int,
        seed: str,
        samples: int = BLOCK_SAMPLES,
        most_ahead: int | None = None,
    ) -> None:
        """`first` is the number of the first block. Each dealt block is drawn from `choose_among` that were pulled.

        No block is pulled that is `most_ahead` after the first one that is not stored.
        """
        self._most_ahead = most_ahead
        self._units, self._round, self._number, self._samples = units, round, first, samples
        self._choose_among, self._random = choose_among, random.Random(seed)
        self._pulled: list[Block] = []
        self._returned: deque[Block] = deque()
        self._next_unit: Unit | None = None
        self._is_exhausted = False
        self.open: dict[int, Block] = {}
        """Dealt blocks that are not stored, by number."""

    def pop(self) -> Block | None:
        """Return the block to send next; None if there is none now."""
        while self._returned:
            if not (block := self._returned.popleft()).is_stored:
                return self._deal(block)
        if self._most_ahead is not None and self.open and self._number - min(self.open) >= self._most_ahead:
            return None
        while len(self._pulled) < self._choose_among and (pulled := self._pull()) is not None:
            self._pulled.append(pulled)
        if not self._pulled:
            return None
        place = self._random.randrange(len(self._pulled))
        self._pulled[place], self._pulled[-1] = self._pulled[-1], self._pulled[place]
        return self._deal(self._pulled.pop())

    def put_back(self, block: Block) -> None:
        """Deal a block again, before all others: its worker is lost."""
        if not block.is_stored and block not in self._returned:
            self._returned.append(block)

    def store(self, block: Block) -> bool:
        """Return whether a result of a block is its first one, which stays."""
        is_first, block.is_stored = not block.is_stored, True
        self.open.pop(block.number, None)
        return is_first

    @property
    def is_done(self) -> bool:
        """Return whether every unit of the round is stored."""
        return self._is_exhausted and not (self.open or self._pulled)

    @property
    def last_number(self) -> int:
        return self._number - 1

    def _deal(self, block: Block) -> Block:
        block.dealt += 1
        self.open[block.number] = block
        return block

    def _pull(self) -> Block | None:
        """Return the next block of the iterator; None at its end."""
        block, positions = Block(self._number, self._round), set[int]()
        while (unit := self._take_unit()) is not None:
            positions.add(unit.position)
            if len(positions) > self._samples:
                self._next_unit = unit
                break
            block.units.append(unit)
        if not block.units:
            return None
        self._number += 1
        return block

    def _take_unit(self) -> Unit | None:
        unit, self._next_unit = self._next_unit, None
        if unit is None and not self._is_exhausted:
            unit = next(self._units, None)
            self._is_exhausted = unit is None
        return unit
