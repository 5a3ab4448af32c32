"""Deadlines of thousands of requests a second, for which a loop keeps one timer, not one each.

What asyncio.timeout does, for half of what it costs (`python -m benchmarks.asking`): a request has two deadlines, its own and its
sample's, and nearly always none of them is ever due. https://docs.python.org/3/library/asyncio-task.html#timeouts
"""

from __future__ import annotations

import asyncio
import math
import threading
from types import TracebackType


class TimeLimit:
    """An asynchronous context manager: what is awaited inside is cancelled when the time is over, and raises TimeoutError.

    A cancellation by somebody else stays one, whichever came first.
    """

    __slots__ = ("_cancelling", "_has_expired", "_is_open", "_seconds", "_task", "_watch", "when")

    def __init__(self, seconds: float | None) -> None:
        """None for no limit."""
        self.when = math.inf
        """By the loop's clock; infinite for never."""
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
        if self._has_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def move(self, when: float) -> None:
        """Let it be over at another time. One that is over, or has been left, stays so."""
        if self._is_open and not self._has_expired:
            self.when = when
            self._watch.see(self)

    def expired(self) -> bool:
        """Whether the time was over before the work was done."""
        return self._has_expired

    def expire(self) -> None:
        """For the watch to call."""
        self._has_expired = True
        self._task.cancel()


class _Watch:
    """The open limits of one loop. Its timer is never later than the first of them."""

    __slots__ = ("_at", "_timer", "limits", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.limits: set[TimeLimit] = set()
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def see(self, limit: TimeLimit) -> None:
        self.limits.add(limit)
        if limit.when < self._at:
            self._look_at(limit.when)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = when, self.loop.call_at(when, self._look)

    def _look(self) -> None:
        self._at, self._timer = math.inf, None
        now = self.loop.time()
        for limit in [limit for limit in self.limits if limit.when <= now]:
            self.limits.discard(limit)
            limit.expire()
        first = min((limit.when for limit in self.limits), default=math.inf)
        if first < math.inf:
            self._look_at(first)


class _Here(threading.local):
    """A thread runs one loop at a time."""

    watch: _Watch | None = None


_HERE = _Here()


def _watch() -> _Watch:
    """That of the running loop."""
    loop, watch = asyncio.get_running_loop(), _HERE.watch
    if watch is None or watch.loop is not loop:
        watch = _HERE.watch = _Watch(loop)
    return watch
