"""An event loop on which waiting takes no time: its clock jumps to the next moment at which something is due.

For code that waits by `asyncio.sleep`, `asyncio.timeout` and `loop.time()`, and uses neither threads nor sockets.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting, moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits, and nothing is due: this would hang for ever")
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run to its end, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function, which runs on a virtual clock."""

    @functools.wraps(test)
    def run_test(*arguments: Any, **named: Any) -> None:
        run(test(*arguments, **named))

    return run_test


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function, which runs in real time."""

    @functools.wraps(test)
    def run_test(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run_test
