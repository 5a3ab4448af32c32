"""Batched lookups in a thread, so that an event loop never waits for a database.

Keys that are requested while one batch is looked up form the next batch: the busier the loop, the larger the batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")
BATCH_SIZE = 500
"""Keys of one lookup: fewer than the parameters that any database allows in a statement."""


@dataclass(frozen=True, slots=True)
class _Lookup(Generic[Value]):
    key: str
    answer: asyncio.Future[Value | None]
    loop: asyncio.AbstractEventLoop


class BatchReader(Generic[Value]):
    """Finds values by key. `look_up` runs in the thread; its error is raised by every `find` of the batch."""

    def __init__(self, look_up: Callable[[list[str]], Mapping[str, Value]]) -> None:
        self._look_up = look_up
        self._wanted: queue.SimpleQueue[_Lookup[Value] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def find(self, key: str) -> Value | None:
        """Return the value of a key, or None without one. Callable from any loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="crucible-reader", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value | None] = loop.create_future()
        self._wanted.put(_Lookup(key, answer, loop))
        return await answer

    def close(self) -> None:
        """Finish the pending lookups and end the thread. Idempotent."""
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._batch()
            self._answer(batch)

    def _batch(self) -> tuple[list[_Lookup[Value]], bool]:
        """Return all pending lookups, at least one, and whether more may follow."""
        lookup, batch = self._wanted.get(), []
        with contextlib.suppress(queue.Empty):
            while lookup is not None:
                batch.append(lookup)
                if len(batch) == BATCH_SIZE:
                    break
                lookup = self._wanted.get_nowait()
        return batch, lookup is not None

    def _answer(self, batch: list[_Lookup[Value]]) -> None:
        values: Mapping[str, Value] | Exception
        try:
            values = self._look_up([lookup.key for lookup in batch])
        except Exception as error:  # nothing above this thread would see it: the callers raise it
            values = error
        for loop in {lookup.loop for lookup in batch}:
            # The loop was closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, [lookup for lookup in batch if lookup.loop is loop], values)


def _settle(batch: list[_Lookup[Value]], values: Mapping[str, Value] | Exception) -> None:
    for lookup in batch:
        # The caller was cancelled.
        if lookup.answer.done():
            continue
        if isinstance(values, Exception):
            lookup.answer.set_exception(values)
        else:
            lookup.answer.set_result(values.get(lookup.key))
