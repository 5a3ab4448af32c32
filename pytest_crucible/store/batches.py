"""Looking things up in a thread, as many at a time as are asked for: an event loop never waits for a database.

Whoever asks while one batch is looked up is in the next one; the busier the loop, the larger the batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")
MOST = 500
"""Keys that are looked up at a time: fewer than any database takes parameters."""


@dataclass(frozen=True, slots=True)
class _Question(Generic[Found]):
    key: str
    answer: asyncio.Future[Found | None]
    loop: asyncio.AbstractEventLoop


class BatchReader(Generic[Found]):
    """Finds values by key. `look_up` is called in the thread; what it raises, everybody in the batch is told."""

    def __init__(self, look_up: Callable[[list[str]], Mapping[str, Found]]) -> None:
        self._look_up = look_up
        self._wanted: queue.SimpleQueue[_Question[Found] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def find(self, key: str) -> Found | None:
        """The value of a key, None where there is none. From any loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="crucible-reader", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found | None] = loop.create_future()
        self._wanted.put(_Question(key, answer, loop))
        return await answer

    def close(self) -> None:
        """Answer what was asked, and end the thread. Idempotent."""
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._batch()
            self._answer(batch)

    def _batch(self) -> tuple[list[_Question[Found]], bool]:
        """All that is asked now, at least one question; and whether there may be more."""
        one, batch = self._wanted.get(), []
        with contextlib.suppress(queue.Empty):
            while one is not None:
                batch.append(one)
                if len(batch) == MOST:
                    break
                one = self._wanted.get_nowait()
        return batch, one is not None

    def _answer(self, batch: list[_Question[Found]]) -> None:
        found: Mapping[str, Found] | Exception
        try:
            found = self._look_up([one.key for one in batch])
        except Exception as error:  # this thread has nobody above it
            found = error
        for loop in {one.loop for one in batch}:
            with contextlib.suppress(RuntimeError):  # a loop that was closed meanwhile waits for nothing
                loop.call_soon_threadsafe(_settle, [one for one in batch if one.loop is loop], found)


def _settle(batch: list[_Question[Found]], found: Mapping[str, Found] | Exception) -> None:
    for one in batch:
        if one.answer.done():  # who asked was cancelled
            continue
        if isinstance(found, Exception):
            one.answer.set_exception(found)
        else:
            one.answer.set_result(found.get(one.key))
