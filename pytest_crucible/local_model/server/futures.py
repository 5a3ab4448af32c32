"""Results that are fetched later, and the one thread in which the model computes them.

Each request gets an id at once, and its result is kept under that id. A fetched result is kept, in case the client's connection
broke meanwhile, until newer ones need the space. A request that is sent twice has the same id and is computed once. Completions
are numbered for each sampler: a client sends the last number that it has received and gets the later ones; earlier ones are
dropped.

Tasks run in order of arrival, with one exception: a task that can share a computation (a sample request) takes all waiting
tasks of its group with it, wherever they are in the queue. Samplers never change, so this changes no result.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeAlias, TypeVar

from pytest_crucible.local_model.server.archive import MissingCheckpoint
from pytest_crucible.local_model.server.transport import Refusal, Response

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
        return self.share(Group(object(), lambda _: [function()]), None)

    def share(self, group: Group[Item, Result], item: Item, rows: int = 1) -> asyncio.Future[Result]:
        """Compute an item together with others of its group. A cancelled future is not computed."""
        result: asyncio.Future[Result] = self._loop.create_future()
        if self._stopped:
            # Its thread has ended: the future would wait for ever.
            result.set_exception(Refusal("the server was stopped", HTTPStatus.SERVICE_UNAVAILABLE))
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


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits on the number and size of kept results."""

    unfinished: int = 20_000
    fetched_bytes: int = 32 * 1024 * 1024
    unfetched_bytes: int = 512 * 1024 * 1024


class Futures:
    """Results by request id, including pending ones."""

    def __init__(self, capacity: Capacity | None = None) -> None:
        self._capacity = capacity or Capacity()
        self._results: dict[str, asyncio.Future[Response]] = {}
        self._unfinished = 0
        # Two queues, so that fetched results do not displace those still to be fetched.
        self._unfetched, self._fetched = _SizeQueue(), _SizeQueue()

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._results

    def add(self, request_id: str, result: asyncio.Future[Response]) -> None:
        """Keep the result of a request under its id. Refuses (429) if too many are unfinished."""
        self.check_capacity()
        self._unfinished += 1
        self._results[request_id] = result
        result.add_done_callback(lambda done: self._on_finished(request_id, done))

    def check_capacity(self) -> None:
        if self._unfinished >= self._capacity.unfinished:
            sentence = f"{self._unfinished} requests are waiting; fetch or cancel some before sending more"
            raise Refusal(sentence, HTTPStatus.TOO_MANY_REQUESTS)

    async def fetch(self, request_id: str, patience_s: float) -> Response:
        """Wait for a result: 408 if it is not finished in time, 410 if the id is unknown or no longer kept."""
        result = self._results.get(request_id)
        if result is None:
            raise Refusal(
                f"request {request_id!r} is unknown, or its result is no longer kept: send it again", HTTPStatus.GONE
            )
        if not result.done():
            await asyncio.wait((result,), timeout=patience_s)
        if not result.done():
            waiting = {"type": "try_again", "request_id": request_id, "queue_state": "active"}
            return Response.of_json(waiting, HTTPStatus.REQUEST_TIMEOUT)
        self._move_to_fetched(request_id)
        return result.result()

    def cancel(self, request_id: str) -> None:
        """Cancel a request that has not begun; a finished or unknown one is left as it is."""
        if (result := self._results.get(request_id)) and not result.done():
            result.set_result(failure_response("the request was cancelled", "user"))

    def forget(self, request_id: str) -> None:
        """Drop a result that its client has received in full."""
        if (result := self._results.get(request_id)) and result.done() and request_id in self._fetched:
            self._fetched.pop(request_id)
            self._drop([request_id])

    def fail_all(self, sentence: str) -> None:
        for result in tuple(self._results.values()):
            if not result.done():
                result.set_result(failure_response(sentence, "server"))

    def _on_finished(self, request_id: str, result: asyncio.Future[Response]) -> None:
        self._unfinished -= 1
        # It may have been fetched before this callback ran.
        if request_id not in self._fetched:
            self._unfetched.put(request_id, len(result.result().body))
            self._drop(self._unfetched.overflow(self._capacity.unfetched_bytes))

    def _move_to_fetched(self, request_id: str) -> None:
        self._unfetched.pop(request_id)
        self._fetched.pop(request_id)
        self._fetched.put(request_id, len(self._results[request_id].result().body))
        self._drop(self._fetched.overflow(self._capacity.fetched_bytes))

    def _drop(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            del self._results[request_id]


def failure_response(sentence: str, category: str) -> Response:
    """Return a failed result: the SDK raises RequestFailedError. Category is user, server or unknown."""
    return Response.of_json({"error": sentence, "category": category})


class _SizeQueue:
    """Sizes by id, oldest first."""

    _PER_RESULT = 500
    """Bytes that a result costs besides its body."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._sizes

    def put(self, request_id: str, size: int) -> None:
        self._sizes[request_id] = size + self._PER_RESULT
        self._total += size + self._PER_RESULT

    def pop(self, request_id: str) -> None:
        self._total -= self._sizes.pop(request_id, 0)

    def overflow(self, limit: int) -> list[str]:
        """Remove the oldest until the rest fits; the newest always stays."""
        dropped = []
        while self._total > limit and len(self._sizes) > 1:
            request_id, size = self._sizes.popitem(last=False)
            self._total -= size
            dropped.append(request_id)
        return dropped


T = TypeVar("T")

_USERS_ERRORS = (ValueError, MissingCheckpoint, FileExistsError, FileNotFoundError, ArithmeticError)


def to_response(computed: asyncio.Future[T], make_response: Callable[[T], Response]) -> asyncio.Future[Response]:
    """Return a future that never raises: an exception becomes a failure with its message and category."""
    answer: asyncio.Future[Response] = computed.get_loop().create_future()

    def settle(done: asyncio.Future[T]) -> None:
        if done.cancelled() or answer.done():
            return
        try:
            answer.set_result(make_response(done.result()))
        except Exception as error:
            answer.set_result(error_response(error))

    computed.add_done_callback(settle)
    # A client that cancels spares the computation, or what is left of a reply.
    answer.add_done_callback(lambda _: computed.cancel())
    return answer


def error_response(error: BaseException) -> Response:
    if isinstance(error, Refusal):
        return failure_response(error.sentence, "user")
    if isinstance(error, _USERS_ERRORS):
        return failure_response(str(error), "user")
    traceback.print_exception(error, file=sys.stderr)
    return failure_response(f"{type(error).__name__}: {error}", "server")


# Completions that are kept for a client that never polls.
MAX_COMPLETIONS = 20_000


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request, and the size of its result; None if it failed."""

    number: int
    request_id: str
    size: int | None


@dataclass(slots=True)
class _Log:
    """The finished requests of one sampler, and an event for the next one."""

    last: int = 0
    done: deque[Completion] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETIONS))
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Completions:
    """The finished requests of each sampler, which its client polls."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def record(self, sampler: str, request_id: str, size: int | None) -> None:
        log = self._log(sampler)
        log.last += 1
        log.done.append(Completion(log.last, request_id, size))
        log.changed.set()

    async def after(self, sampler: str, last_seen: int, patience_s: float) -> tuple[Sequence[Completion], int]:
        """Return completions after `last_seen`, and the last number. Waits up to `patience_s` for the first one."""
        log = self._log(sampler)
        # What the client has received is not sent again.
        while log.done and log.done[0].number <= last_seen:
            log.done.popleft()
        if not log.done and patience_s > 0:
            log.changed.clear()
            waiting = asyncio.ensure_future(log.changed.wait())
            await asyncio.wait((waiting,), timeout=patience_s)
            waiting.cancel()
        return tuple(log.done), log.done[-1].number if log.done else max(last_seen, 0)

    def forget(self, start: str) -> None:
        """Drop the samplers whose names begin like this."""
        for sampler in [name for name in self._logs if name.startswith(start)]:
            del self._logs[sampler]

    def _log(self, sampler: str) -> _Log:
        return self._logs.setdefault(sampler, _Log())
