"""Time limits for thousands of requests a second: each event loop keeps one timer for all of them.

They do what asyncio.timeout does at half the cost (`python -m benchmarks.asking`): each request has two limits, its own and its
sample's, and nearly none of them ever expires. https://docs.python.org/3/library/asyncio-task.html#timeouts
"""

from __future__ import annotations

import asyncio
import math
import threading
from types import TracebackType


class TimeLimit:
    """An asynchronous context manager that cancels its block when the time is over, and raises TimeoutError.

    A cancellation from elsewhere stays a cancellation, whichever came first.
    """

    __slots__ = ("_cancelling", "_has_expired", "_is_open", "_seconds", "_task", "_watch", "when")

    def __init__(self, seconds: float | None) -> None:
        """`seconds`: the limit; None for no limit."""
        self.when = math.inf
        """When it expires, by the loop's clock; infinite for never."""
        self._seconds = seconds
        self._has_expired = self._is_open = False

    async def __aenter__(self) -> TimeLimit:
        task = asyncio.current_task()
        assert task is not None  # a coroutine runs in one
        self._task, self._cancelling = task, task.cancelling()
        self._watch, self._is_open = _watch(), True
        if self._seconds is not None:
            self.move(self._watch.loop.time() + self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._watch.limits.discard(self)
        # As asyncio.timeout: a cancellation from elsewhere must not become a TimeoutError.
        if self._has_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def move(self, when: float) -> None:
        """Move the moment of expiry. A limit that has expired or was left does not change."""
        if self._is_open and not self._has_expired:
            self.when = when
            self._watch.add(self)

    def expired(self) -> bool:
        """Return whether the time was over before the block ended."""
        return self._has_expired

    def expire(self) -> None:
        """Cancel the block (called by the watch)."""
        self._has_expired = True
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
    """The watch of this thread: a thread runs one loop at a time."""

    watch: _Watch | None = None


_THREAD = _ThreadState()


def _watch() -> _Watch:
    """Return the watch of the running loop."""
    loop, watch = asyncio.get_running_loop(), _THREAD.watch
    if watch is None or watch.loop is not loop:
        watch = _THREAD.watch = _Watch(loop)
    return watch
