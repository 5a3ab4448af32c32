"""A per-sample deadline that pauses while the sample waits for rate limits, retries or an unavailable server.

A sample that exceeds its deadline has failed, which is the candidate's doing. Waiting for a permit, a retry or a restarting
server is not, and neither is a request that the server failed to answer. So waiting pauses the clock, and a failed request
returns the time that it took; and a sample whose server has answered none of its requests is lost, not failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

from pytest_crucible.backends.timers import TimeLimit


class Server(Protocol):
    """A server, as far as a sample asks whether it works."""

    @property
    def has_answered(self) -> bool: ...


class SampleClock:
    """The time limit of one sample, which can be paused."""

    __slots__ = ("_left", "_limit", "_pauses", "attempts", "is_answered", "server")

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._pauses = 0
        self._left = 0.0
        self.server: Server | None = None
        """The server that the last request was sent to; None before the first one, and for models in this process."""
        self.attempts = 0
        """How many requests were sent to servers."""
        self.is_answered = False
        """Whether any of them has been answered, if only by the beginning of a stream."""

    def pause(self) -> None:
        """Pause the clock. Pauses nest: a sample may wait for several requests at once."""
        self._pauses += 1
        # Only the outermost pause stops the limit.
        if self._pauses == 1 and self._limit.when < math.inf:
            self._left = self._limit.when - asyncio.get_running_loop().time()
            self._limit.move(math.inf)

    def resume(self) -> None:
        """End one pause; the clock runs again when the last one has ended."""
        self._pauses -= 1
        if not self._pauses and self._left:
            self._limit.move(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0

    def return_time(self, seconds: float) -> None:
        """Extend the limit by seconds that were not the sample's own."""
        # While the clock is paused the limit is infinite, so the time is added to what is left.
        if self._pauses:
            self._left += seconds if self._left else 0.0
        else:
            self._limit.move(self._limit.when + seconds)


_CLOCK: ContextVar[SampleClock | None] = ContextVar("crucible_sample_clock", default=None)


def set_clock(limit: TimeLimit) -> SampleClock:
    """Set the limit whose clock waiting pauses, for this task and the tasks it starts; return the clock."""
    clock = SampleClock(limit)
    _CLOCK.set(clock)
    return clock


def note_request(server: Server) -> None:
    """Record that a request of the current sample is sent to a server."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.server = server
        clock.attempts += 1


def note_answer() -> None:
    """Record that a request of the current sample was answered."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.is_answered = True


@contextlib.contextmanager
def paused_clock() -> Iterator[None]:
    """Pause the sample's clock inside the block."""
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
    clock = _CLOCK.get()
    if clock is not None:
        clock.return_time(seconds)
