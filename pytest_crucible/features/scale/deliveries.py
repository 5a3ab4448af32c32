"""Blocks that workers have sent and hold, until a part with their rows is in the manifest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from pytest_crucible.features.scale.blocks import Block
from pytest_crucible.features.scale.cluster import Worker
from pytest_crucible.quick_dataclass import dataclass

WRITE_S = 5.0
"""Seconds after which a held block is written: a worker that dies costs no older replies."""
HELD_BYTES = 1 << 26
"""Bytes that a worker writes earlier: replies may be long."""


class HeldBlock(NamedTuple):
    """A block whose rows a worker holds."""

    block: Block
    facts: Mapping[str, Any]
    batches: Sequence[Any]
    """The rows that count its units."""


@dataclass
class _Holder:
    """The blocks of one worker."""

    blocks: dict[int, HeldBlock] = field(default_factory=dict)
    since: float = 0.0
    """When the oldest of them came."""
    bytes: int = 0
    is_entered: bool = True
    """Whether the parts of its last call are in the manifest."""
    is_joined: bool = True
    """Whether it has joined its small parts since the last block."""

    def is_due(self) -> bool:
        return bool(self.blocks) and (time.monotonic() - self.since >= WRITE_S or self.bytes >= HELD_BYTES)


class Write(NamedTuple):
    """A call of a worker to write blocks."""

    worker: Worker
    blocks: Mapping[int, HeldBlock]
    is_last: bool


class Deliveries:
    """The held blocks of a round, and the calls that write them."""

    def __init__(self, run: int, workers: Sequence[Worker]) -> None:
        self._run = run
        self._holders = {worker: _Holder() for worker in workers}
        self._writes: dict[asyncio.Task[Any], Write] = {}
        self._late: dict[asyncio.Task[Any], Write] = {}
        """Calls of workers that did not answer, whose blocks are dealt again."""

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        return [*self._writes, *self._late]

    @property
    def is_done(self) -> bool:
        """Return whether every live worker has written all, and joined its parts."""
        live = [holder for worker, holder in self._holders.items() if not worker.is_lost]
        return not self._writes and all(holder.is_joined for holder in live)

    def hold(self, worker: Worker, held: HeldBlock) -> None:
        """Add a block that a worker has sent."""
        holder = self._holders[worker]
        if not holder.blocks:
            holder.since, holder.bytes = time.monotonic(), 0
        holder.blocks[held.block.number] = held
        holder.bytes += held.facts["bytes"]
        holder.is_joined = False

    def begin(self, *, is_last: bool) -> None:
        """Call the workers whose blocks are due. `is_last` writes all, and lets each worker join its small parts."""
        writing = {write.worker for write in self._writes.values()}
        for worker, holder in self._holders.items():
            if not worker.is_lost and worker not in writing and (holder.is_due() or (is_last and not holder.is_joined)):
                self._call(worker, holder, is_last=is_last)

    def _call(self, worker: Worker, holder: _Holder, *, is_last: bool) -> None:
        # Others may have been faster with blocks that were dealt again.
        blocks = {number: held for number, held in holder.blocks.items() if not held.block.is_stored}
        reference = worker.actor.write_parts.remote(self._run, [*blocks], is_entered=holder.is_entered, is_last=is_last)
        holder.blocks, holder.bytes = {}, 0
        self._writes[asyncio.ensure_future(asyncio.wrap_future(reference.future()))] = Write(worker, blocks, is_last)

    def pop(self, task: asyncio.Task[Any]) -> tuple[Write, bool]:
        """Return a call that has ended, and whether its blocks are dealt again already."""
        is_late = task in self._late
        return (self._late if is_late else self._writes).pop(task), is_late

    def conclude(self, write: Write, *, is_entered: bool) -> None:
        """Note whether the parts of a call are in the manifest."""
        holder = self._holders[write.worker]
        holder.is_entered = is_entered
        holder.is_joined = write.is_last and is_entered and not holder.blocks

    def pop_lost(self) -> list[Block]:
        """Return, once, the blocks that lost workers hold or write."""
        lost = [task for task, write in self._writes.items() if write.worker.is_lost]
        self._late |= {task: self._writes.pop(task) for task in lost}
        blocks = [held.block for task in lost for held in self._late[task].blocks.values()]
        for worker, holder in self._holders.items():
            if worker.is_lost and holder.blocks:
                blocks += [held.block for held in holder.blocks.values()]
                holder.blocks, holder.bytes = {}, 0
        return blocks

    def cancel(self) -> None:
        """Wait for no call any more."""
        for task in self.tasks:
            task.cancel()
