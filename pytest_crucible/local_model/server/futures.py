"""Results that are fetched later, and the thread in which models are trained, saved and read.

Each request gets an id at once, and its result is kept under that id. A fetched result is kept, in case the client's connection
broke meanwhile, until newer ones need the space. A request that is sent twice has the same id and is computed once. Completions
are numbered for each sampler: a client sends the last number that it has received and gets the later ones; earlier ones are
dropped.
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
from dataclasses import field
from http import HTTPStatus
from typing import Any, TypeVar

from pytest_crucible.local_model.server.archive import MissingCheckpoint
from pytest_crucible.local_model.server.transport import Refusal, Response
from pytest_crucible.quick_dataclass import dataclass

Result = TypeVar("Result")


@dataclass(slots=True)
class _Call:
    function: Callable[[], Any]
    result: asyncio.Future[Any]


class Worker:
    """Calls functions in a thread of its own, for one event loop: those of a client in order, and clients by turns."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Hashable, deque[_Call]] = {}
        self._started: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._busy = False
        self._stopped = False
        # A daemon: a computation that does not end must not keep the process.
        self._thread = threading.Thread(target=self._call_all, name="embedded-model", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Result], client: Hashable = None) -> asyncio.Future[Result]:
        """Return a future of the function's result. A function whose future is cancelled before its turn is not called."""
        result: asyncio.Future[Result] = self._loop.create_future()
        if self._stopped:
            # Its thread has ended: the future would wait for ever.
            result.set_exception(Refusal("the server was stopped", HTTPStatus.SERVICE_UNAVAILABLE))
            return result
        self._waiting.setdefault(client, deque()).append(_Call(function, result))
        self._start_next()
        return result

    def stop(self) -> None:
        """Start no further computation; whatever is submitted later fails."""
        self._stopped = True
        self._waiting.clear()
        self._started.put(None)

    def join(self, patience_s: float = 5.0) -> None:
        """Wait until the present computation ends; call it after `stop`. A longer one ends with the process."""
        self._thread.join(patience_s)

    def _start_next(self) -> None:
        if not self._busy and (call := self._next_call()):
            self._busy = True
            self._started.put(call)

    def _next_call(self) -> _Call | None:
        while self._waiting:
            client = next(iter(self._waiting))
            calls = self._waiting.pop(client)
            call = calls.popleft()
            if calls:
                # Behind the other clients.
                self._waiting[client] = calls
            if not call.result.done():
                return call
        return None

    def _call_all(self) -> None:
        while call := self._started.get():
            outcome: Any
            try:
                outcome, is_error = call.function(), False
            except Exception as error:
                outcome, is_error = error, True
            # The loop has closed: nothing waits for the result.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, call.result, outcome, is_error)

    def _deliver(self, result: asyncio.Future[Any], outcome: Any, is_error: bool) -> None:
        self._busy = False
        self._start_next()
        if result.done():
            return
        if is_error:
            result.set_exception(outcome)
        else:
            result.set_result(outcome)


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

    def cancel_all(self, start: str) -> None:
        """Cancel the unfinished requests whose ids begin like this."""
        for request_id in [name for name in self._results if name.startswith(start)]:
            self.cancel(request_id)

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
