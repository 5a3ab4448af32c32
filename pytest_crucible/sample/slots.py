"""The slots of the units of an experiment, each with a worker that pulls units while it has the slot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

# Open units, waiting ones with them, for each that may run: refused requests of a server that asks for a pause of a second must not
# keep others from being sent, and each costs some kilobytes.
MOST_OPEN = 5


class WorkerSlots:
    """Gives a slot that a waiting unit releases to one that has waited, or else to a new worker."""

    def __init__(self, start: Callable[[], None], most_workers: int) -> None:
        self._start = start
        self._most_workers = most_workers
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._free = 0
        self._has_units = True
        self._workers = 0

    def start_worker(self) -> None:
        """Start a worker, which has a slot."""
        self._workers += 1
        self._start()

    def end_worker(self) -> None:
        """Record that a worker has found no more units, and release its slot."""
        self._has_units = False
        self._workers -= 1
        self.release()

    def end_without_slot(self) -> None:
        """Record that a worker has ended whose slot has gone to another one."""
        self._workers -= 1
        if self._free:
            self._free -= 1
            self.release()

    def hand_over(self) -> bool:
        """Give the caller's slot to a unit that has waited; return whether there is one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    def release(self) -> None:
        """Give a slot back."""
        if self.hand_over():
            return
        if self._has_units and self._workers < self._most_workers:
            self.start_worker()
        else:
            self._free += 1

    async def acquire(self) -> None:
        """Wait for a slot."""
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # The slot came in the same moment.
            if waiter.done() and not waiter.cancelled():
                self.release()
            raise
