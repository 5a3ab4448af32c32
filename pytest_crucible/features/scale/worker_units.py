"""The units of blocks while a worker's engine sends them, and the rows that each block becomes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Event, Lost, Observation, Outcome, Unit
from pytest_crucible.store.row_batch import OutcomeRows, Row, RowBatch
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table

MOST_CACHED = 5_000
"""Replies that a worker finds again before the store has them: those of the last dozens of blocks."""


@dataclass
class OpenBlock:
    """A block that is being sent."""

    units: set[Unit]
    rows: OutcomeRows
    batch: RowBatch = field(default_factory=RowBatch)
    done: Future[None] = field(default_factory=Future)
    started: float = field(default_factory=time.time)
    finished: float = 0.0
    lost: int = 0
    retries: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the numbers of the block that its row in the store has."""
        return {"started": self.started, "finished": self.finished, "lost": self.lost, "retries": self.retries}

    def tables(self) -> list[Rows]:
        """Return all rows of the finished block."""
        self.rows.add_late_rows(self.batch)
        return self.batch.tables()


class BlockRows:
    """The writer of a worker's session: rows, events and cached replies go to the driver with a block, and to no database.

    It has the methods of a Writer that a worker's session calls. For any thread.
    """

    def __init__(self, sample_id: Callable[[int], str] = str) -> None:
        self._lock = threading.Lock()
        self._of_sample: dict[str, OpenBlock] = {}
        self._loose = RowBatch()
        """Events and cached replies of no open block: they go with the next one that is finished."""
        self._cached: dict[tuple[Table, str], Row] = {}

    def open(self, block: OpenBlock, samples: Sequence[str]) -> None:
        """Add the events of these samples to the block from now on."""
        with self._lock:
            self._of_sample |= dict.fromkeys(samples, block)

    def finish(self, block: OpenBlock) -> None:
        """Take the loose rows into a finished block. Later events of its samples are loose."""
        with self._lock:
            self._of_sample = {sample: other for sample, other in self._of_sample.items() if other is not block}
            block.batch.events += self._loose.events
            for key, rows in self._loose.keyed.items():
                block.batch.keyed.setdefault(key, {}).update(rows)
            self._loose = RowBatch()

    def tell(self, run: str, event: Event) -> None:
        """Add an event of a run."""
        with self._lock:
            block = self._of_sample.get(event.sample)
            (self._loose if block is None else block.batch).events.append((run, event))
            if block is not None:
                block.retries += event.name == "request.retry"

    def put(self, table: Table, row: Row, *, overwrite: bool = False) -> None:
        """Add a row of a table whose key is its first column."""
        with self._lock:
            self._loose.put(table, row, overwrite=overwrite)
            key = table, row[table.names[0]]
            self._cached[key] = row if overwrite else self._cached.get(key, row)
            if len(self._cached) > MOST_CACHED:
                del self._cached[next(iter(self._cached))]

    def close(self) -> None:
        """Nothing waits here: a block is sent when it is finished."""

    def waiting(self, table: Table, key: str) -> Row | None:
        """Return a row that was put by this worker; its own database never has it."""
        return self._cached.get((table, key))


class UnitSource:
    """The units of all blocks that a worker has, as one iterator. Used on the sampling loop alone."""

    def __init__(self, writer: BlockRows) -> None:
        self._writer = writer
        self._units: deque[Unit] = deque()
        self._block_of: dict[Unit, OpenBlock] = {}
        self._more = asyncio.Event()
        self._is_over = False

    def add(self, block: OpenBlock, units: Sequence[Unit]) -> None:
        """Send the units of a further block."""
        # A unit of a block that was dealt again, to the worker that had it before.
        self._block_of |= dict.fromkeys(units, block)
        self._units += units
        self._more.set()

    def end(self, cancel: Callable[[], object]) -> None:
        """End the iterator. Units that are still sent, which the driver does not wait for any more, are cancelled."""
        self._is_over = True
        self._more.set()
        if self._block_of:
            cancel()

    def __iter__(self) -> UnitSource:
        return self

    def __next__(self) -> Unit | None:
        if self._units:
            return self._units.popleft()
        if self._is_over:
            raise StopIteration
        return None

    async def wait(self) -> None:
        """Wait until there are further units, or the end."""
        if not (self._units or self._is_over):
            self._more.clear()
            await self._more.wait()

    def keep(
        self, arms: Sequence[Sequence[int]], outcome: Outcome, scores: tuple[Sequence[Observation], Sequence[Lost]]
    ) -> None:
        """Add the rows of an outcome to its block, which is done with its last one. `arms` are the driver's keys of the arms."""
        unit = outcome.unit
        if (block := self._block_of.pop(unit, None)) is None:
            return
        block.rows.add(block.batch, outcome, arms[unit.arm][unit.variant], *scores)
        block.lost += outcome.lost is not None
        block.units.discard(unit)
        if not block.units:
            block.finished = time.time()
            self._writer.finish(block)
            block.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End all blocks that are open with an error."""
        for block in {id(block): block for block in self._block_of.values()}.values():
            if not block.done.done():
                block.done.set_exception(error)
        self._block_of.clear()
