"""Whose time it is: a sample's own deadline runs while its answer is made, and not while it waits for the world.

A sample that is not answered within its deadline has failed, which is the candidate's doing. To wait for a turn, for a retry or
for a server that is down is not, and neither is a request that the server failed to answer. So waiting stops the
deadline, and a request that fails gives back the time that it took.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar


class SampleClock:
    """The deadline of one sample, as an `asyncio.Timeout` that can be stopped."""

    __slots__ = ("_left", "_stops", "_timeout")

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._stops = 0
        self._left = 0.0

    def stop(self) -> None:
        """Something of this sample waits; it may ask several things at a time."""
        self._stops += 1
        when = self._timeout.when()
        if self._stops == 1 and when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self._move(None)

    def go(self) -> None:
        """It waits no longer."""
        self._stops -= 1
        if not self._stops and self._left:
            self._move(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0

    def give_back(self, seconds: float) -> None:
        """So much was not the sample's own."""
        when = self._timeout.when()
        if self._stops:
            self._left += seconds if self._left else 0.0
        elif when is not None:
            self._move(when + seconds)

    def _move(self, when: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # it is over, and what still runs was left behind by the test
            self._timeout.reschedule(when)


_CLOCK: ContextVar[SampleClock | None] = ContextVar("crucible_sample_clock", default=None)


def set_clock(timeout: asyncio.Timeout) -> None:
    """From here on, in this task and in what it starts, waiting does not count against this deadline."""
    _CLOCK.set(SampleClock(timeout))


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
