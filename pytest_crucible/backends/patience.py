"""Whose time it is: a sample's own deadline runs while its answer is made, and not while it waits for the world.

A sample that is not answered within its deadline has failed, which is the candidate's doing. To wait for a turn, for a retry or
for a server that is down is not, and neither is a request that the server failed to answer. So waiting stops the
deadline, and a request that fails gives back the time that it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar

from pytest_crucible.backends.time_limits import TimeLimit


class SampleClock:
    """The time limit of one sample, as one that can be stopped."""

    __slots__ = ("_left", "_limit", "_stops")

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._stops = 0
        self._left = 0.0

    def stop(self) -> None:
        """Something of this sample waits; it may ask several things at a time."""
        self._stops += 1
        if self._stops == 1 and self._limit.when < math.inf:
            self._left = self._limit.when - asyncio.get_running_loop().time()
            self._limit.move(math.inf)

    def go(self) -> None:
        """It waits no longer."""
        self._stops -= 1
        if not self._stops and self._left:
            self._limit.move(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0

    def give_back(self, seconds: float) -> None:
        """So much was not the sample's own."""
        if self._stops:
            self._left += seconds if self._left else 0.0
        else:
            self._limit.move(self._limit.when + seconds)


_CLOCK: ContextVar[SampleClock | None] = ContextVar("crucible_sample_clock", default=None)


def set_clock(limit: TimeLimit) -> None:
    """From here on, in this task and in what it starts, waiting does not count against this limit."""
    _CLOCK.set(SampleClock(limit))


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """What is waited inside is not the sample's own time."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.go()


def give_back(seconds: float) -> None:
    """What has passed was not the sample's own time."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.give_back(seconds)
