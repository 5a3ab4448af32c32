"""The one thread in which the model computes, and its queue.

Tasks run in order of arrival, with one exception: a task that can share a computation (a sample request) takes all waiting
tasks of its group with it, wherever they are in the queue. Samplers never change, so this changes no result.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeAlias, TypeVar

from pytest_crucible.local_model.server.messages import Refusal

Item = TypeVar("Item")
Result = TypeVar("Result")
Outcome: TypeAlias = "Result | BaseException"

# Rows that are computed together at most.
MAX_ROWS = 64


@dataclass(frozen=True, slots=True)
class Group(Generic[Item, Result]):
    """Tasks that are computed together: equal keys, and the function that computes a list of items."""

    key: Hashable
    compute: Callable[[Sequence[Item]], Sequence[Result]] = field(compare=False)


@dataclass(slots=True)
class _Task:
    group: Group[Any, Any]
    item: Any
    rows: int
    result: asyncio.Future[Any]


class Worker:
    """Computes in a thread of its own, for one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Task] = deque()
        self._batches: queue.SimpleQueue[list[_Task] | None] = queue.SimpleQueue()
        self._busy = False
        self._stopped = False
        # A daemon: a computation that does not end must not keep the process.
        self._thread = threading.Thread(target=self._compute_all, name="embedded-model", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run a function when its turn comes."""
        return self.share(Group(object(), lambda _: [function()]), None)

    def share(self, group: Group[Item, Result], item: Item, rows: int = 1) -> asyncio.Future[Result]:
        """Compute an item together with others of its group. A cancelled future is not computed."""
        result: asyncio.Future[Result] = self._loop.create_future()
        if self._stopped:
            # Its thread has ended: the future would wait for ever.
            result.set_exception(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the server was stopped"))
            return result
        self._waiting.append(_Task(group, item, rows, result))
        self._start_next()
        return result

    def stop(self) -> None:
        """Start no further computation; whatever is submitted later fails."""
        self._stopped = True
        self._waiting.clear()
        self._batches.put(None)

    def join(self, patience_s: float = 5.0) -> None:
        """Wait until the present computation ends; call it after `stop`. A longer one ends with the process."""
        self._thread.join(patience_s)

    def _start_next(self) -> None:
        if not self._busy and (batch := self._next_batch()):
            self._busy = True
            self._batches.put(batch)

    def _next_batch(self) -> list[_Task]:
        batch: list[_Task] = []
        remaining: deque[_Task] = deque()
        rows = 0
        while self._waiting:
            task = self._waiting.popleft()
            if task.result.done():
                continue
            if not batch or (task.group == batch[0].group and rows + task.rows <= MAX_ROWS):
                batch.append(task)
                rows += task.rows
            else:
                remaining.append(task)
            if rows >= MAX_ROWS:
                break
        remaining.extend(self._waiting)
        self._waiting = remaining
        return batch

    def _compute_all(self) -> None:
        while batch := self._batches.get():
            outcomes = _compute(batch[0].group, [task.item for task in batch])
            # The loop has closed: nothing waits for the results.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, batch, outcomes)

    def _deliver(self, batch: list[_Task], outcomes: Sequence[Outcome[Any]]) -> None:
        self._busy = False
        self._start_next()
        for task, outcome in zip(batch, outcomes, strict=True):
            if task.result.done():
                continue
            if isinstance(outcome, BaseException):
                task.result.set_exception(outcome)
            else:
                task.result.set_result(outcome)


def _compute(group: Group[Item, Result], items: Sequence[Item]) -> Sequence[Outcome[Result]]:
    """Return results or exceptions. Items that fail together are tried alone, so that each gets its own outcome."""
    try:
        return group.compute(items)
    except Exception as error:
        if len(items) == 1:
            return [error]
    # One bad item must not fail those that were batched with it.
    return [outcome for item in items for outcome in _compute(group, [item])]
