"""Deadlines of requests and samples, and what a sample gives back while it waits: its clock pauses, its slot is released."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

from pytest_crucible.backends.protocol import Backend, Remote, Wrapper, is_number, read_setting
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import Retryable


class TimeLimit:
    """A context manager that cancels its block when the time is over, and raises TimeoutError.

    A cancellation from elsewhere stays a cancellation, whichever came first.
    """

    __slots__ = ("_cancelling", "_is_open", "_seconds", "_task", "_watch", "has_expired", "when")

    def __init__(self, seconds: float | None) -> None:
        """`seconds` is None for a limit that never expires."""
        self.when = math.inf
        """When it expires, by the loop's clock; infinite for never."""
        self._seconds = seconds
        self.has_expired = self._is_open = False
        """`has_expired`: whether the time was over before the block ended."""

    def __enter__(self) -> TimeLimit:
        # A model in this process answers sooner than its task is looked up.
        if self._seconds is None:
            return self
        self._watch = _watch()
        task = asyncio.current_task(self._watch.loop)
        assert task is not None  # a coroutine runs in one
        self._task, self._cancelling, self._is_open = task, task.cancelling(), True
        self.move(self._watch.loop.time() + self._seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._watch.limits.discard(self)
        # As asyncio.timeout: a cancellation from elsewhere must not become a TimeoutError.
        if self.has_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def move(self, when: float) -> None:
        """Move the moment of expiry. A limit that has expired or was left does not change."""
        if self._is_open and not self.has_expired:
            self.when = when
            self._watch.add(self)

    def expire(self) -> None:
        """Cancel the block (called by the watch)."""
        self.has_expired = True
        self._task.cancel()


class _Watch:
    """The open limits of one loop. Its timer is never later than the earliest of them."""

    __slots__ = ("_at", "_timer", "limits", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.limits: set[TimeLimit] = set()
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, limit: TimeLimit) -> None:
        self.limits.add(limit)
        # Most limits are moved or dropped before they are due, so the timer is only ever set earlier.
        if limit.when < self._at:
            self._set_timer(limit.when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = when, self.loop.call_at(when, self._expire_due)

    def _expire_due(self) -> None:
        self._at, self._timer = math.inf, None
        now = self.loop.time()
        for limit in [limit for limit in self.limits if limit.when <= now]:
            self.limits.discard(limit)
            limit.expire()
        first = min((limit.when for limit in self.limits), default=math.inf)
        if first < math.inf:
            self._set_timer(first)


class _ThreadState(threading.local):
    watch: _Watch | None = None


# A thread runs one loop at a time.
_THREAD = _ThreadState()


def _watch() -> _Watch:
    loop, watch = asyncio.get_running_loop(), _THREAD.watch
    if watch is None or watch.loop is not loop:
        watch = _THREAD.watch = _Watch(loop)
    return watch


class Server(Protocol):
    @property
    def has_answered(self) -> bool: ...


@dataclass(slots=True)
class SampleClock:
    """The time limit of one sample, which can be paused."""

    _limit: TimeLimit
    _pauses: int = 0
    _left: float = 0.0
    _credit: float = 0.0
    _paused_at: float = 0.0
    server: Server | None = None
    """The server that the last request was sent to; None before the first one, and for models in this process."""
    attempts: int = 0
    is_answered: bool = False
    """Whether any of them has been answered, if only by the beginning of a stream."""

    def pause(self) -> None:
        """Pause the clock. Pauses nest: a sample may wait for several requests at once."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = asyncio.get_running_loop().time()
        # Only the outermost pause stops the limit.
        if self._pauses == 1 and self._limit.when < math.inf:
            self._left = self._limit.when - asyncio.get_running_loop().time()
            self._limit.move(math.inf)

    def resume(self) -> None:
        """End one pause; the clock runs again when the last one has ended."""
        self._pauses -= 1
        if not self._pauses:
            self._credit += asyncio.get_running_loop().time() - self._paused_at
        if not self._pauses and self._left:
            self._limit.move(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0

    def return_time(self, seconds: float) -> None:
        """Extend the limit by seconds that were not the sample's own."""
        # While the clock is paused the limit is infinite, so the time is added to what is left.
        if self._pauses:
            self._left += seconds if self._left else 0.0
        else:
            self._credit += seconds
            self._limit.move(self._limit.when + seconds)

    def credit(self) -> float:
        """Return the seconds so far that were not the sample's own: those of waiting and of failed requests."""
        return self._credit + (asyncio.get_running_loop().time() - self._paused_at if self._pauses else 0.0)


_CLOCK: ContextVar[SampleClock | None] = ContextVar("crucible_sample_clock", default=None)


def set_clock(limit: TimeLimit) -> SampleClock:
    """Set the limit whose clock waiting pauses, for this task and the tasks it starts; return the clock."""
    clock = SampleClock(limit)
    _CLOCK.set(clock)
    return clock


def note_request(server: Server) -> None:
    if (clock := _CLOCK.get()) is not None:
        clock.server = server
        clock.attempts += 1


def note_answer() -> None:
    if (clock := _CLOCK.get()) is not None:
        clock.is_answered = True


def credited_seconds() -> float:
    """Return the seconds so far that were not the current sample's own."""
    return 0.0 if (clock := _CLOCK.get()) is None else clock.credit()


def awaits_first_answer() -> bool:
    """Return whether the current sample has sent requests to a server, and none has been answered."""
    clock = _CLOCK.get()
    return clock is not None and clock.server is not None and not clock.is_answered


@contextlib.contextmanager
def paused_clock() -> Iterator[None]:
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.pause()
    try:
        yield
    finally:
        clock.resume()


def return_time(seconds: float) -> None:
    """Extend the current sample's limit by seconds that were not its own."""
    if (clock := _CLOCK.get()) is not None:
        clock.return_time(seconds)


class Slots(Protocol):
    def release(self) -> None: ...

    async def acquire(self) -> None: ...


@dataclass(slots=True)
class SampleSlot:
    """The slot of one sample, held from its start to its end except while it waits."""

    _slots: Slots
    _waits: int = 0
    _is_held: bool = True
    _has_ended: bool = False

    def end(self) -> bool:
        """Record the end of the sample; return whether it held its slot then, which the caller now has."""
        self._has_ended = True
        return self._is_held

    @contextlib.asynccontextmanager
    async def without_slot(self) -> AsyncIterator[None]:
        """Release the slot inside the block. Waits nest: a sample may wait for several requests at once."""
        self._waits += 1
        if self._is_held and not self._has_ended:
            self._is_held = False
            self._slots.release()
        try:
            yield
        finally:
            self._waits -= 1
        # Not after a cancellation: then this request is not sent again.
        if self._waits or self._is_held or self._has_ended:
            return
        await self._slots.acquire()
        # Another request of the sample may have acquired its slot meanwhile, or the sample may have ended without this one.
        if self._is_held or self._has_ended:
            self._slots.release()
        else:
            self._is_held = True


_SLOT: ContextVar[SampleSlot | None] = ContextVar("crucible_sample_slot", default=None)


def set_slot(slot: SampleSlot) -> None:
    """Set the slot that waiting releases, for this task and the tasks it starts."""
    _SLOT.set(slot)


@contextlib.asynccontextmanager
async def released_slot() -> AsyncIterator[None]:
    slot = _SLOT.get()
    if slot is None:
        yield
        return
    async with slot.without_slot():
        yield


# Default for backends that query a server. Others have no deadline unless the adapter sets one.
DEADLINE_S = 120.0


class Timed(Wrapper):
    """The wrapper next to the backend. The time of a failed request is credited back to the sample's clock."""

    def __init__(self, inner: Backend, timeout_s: float | None) -> None:
        super().__init__(inner)
        self._timeout_s = timeout_s

    async def generate(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        started, deadline = loop.time(), TimeLimit(self._timeout_s)
        try:
            if self._timeout_s is None:
                return await self.inner.generate(request)
            with deadline:
                return await self.inner.generate(request)
        except (Retryable, TimeoutError) as error:
            return_time(loop.time() - started)
            # A Retryable that arrives together with the deadline explains more than the deadline.
            if deadline.has_expired and not isinstance(error, Retryable):
                raise Retryable(f"no answer within {self._timeout_s:g} s", kind="timeout") from None
            raise


def read_timeout(adapter: Adapter, backend: Backend) -> float | None:
    """Read `timeout_s` of an adapter; None for no deadline. Raises SpecError."""
    default = DEADLINE_S if isinstance(backend, Remote) else 0.0
    expected = "the seconds that one request may take, or 0 for no limit"
    return read_setting(adapter, "timeout_s", default, lambda s: is_number(s) and s >= 0, expected) or None
