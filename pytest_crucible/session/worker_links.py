"""Links between a controller of pytest-xdist and its workers: they announce experiments, interrupt workers, and wait for them.

A signal to the controller alone does not reach its workers, and a worker's last rows follow its last report.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_crucible.session.swallowed_interrupts import raise_in_main_thread

# A worker cancels its requests for up to 5 s, and then stores what it has.
WORKERS_END_S = 10.0
_INPUT = "crucible_channel"
_STORED = "stored"


class WorkerLink:
    """The controller's end of a channel to one worker."""

    def __init__(self, node: Any) -> None:
        self.announced: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._channel = node.workerinput[_INPUT] = node.gateway.newchannel()
        self._channel.setcallback(self._receive, endmarker=_STORED)

    def interrupt(self, number: int) -> None:
        """Send a signal to the worker, unless it has stored its last rows."""
        if self.announced is not None and not self._ended.is_set():
            # The worker may have died since.
            with contextlib.suppress(OSError):
                self._channel.send(number)

    def wait_until_stored(self, timeout: float) -> None:
        """Wait for the last rows of a worker that has experiments."""
        if self.announced is not None:
            self._ended.wait(timeout)

    def _receive(self, message: Any) -> None:
        # Called by execnet's receiver thread; also when the channel is closed, because the worker has died.
        if message == _STORED:
            self._ended.set()
        else:
            self.announced = message


def interrupt_workers(links: Iterable[WorkerLink], number: int) -> None:
    """Interrupt all workers, and wait until their last rows are stored; KeyboardInterrupt ends the wait."""
    until = time.monotonic() + WORKERS_END_S
    for link in links:
        link.interrupt(number)
    with contextlib.suppress(KeyboardInterrupt):
        for link in links:
            link.wait_until_stored(max(0.0, until - time.monotonic()))


def announce_experiments(config: pytest.Config, message: dict[str, Any]) -> None:
    """Announce the experiments of this worker to the controller, and obey the controller's signals from now on."""
    channel = config.workerinput[_INPUT]  # type: ignore[attr-defined]  # xdist's
    channel.setcallback(raise_in_main_thread)
    with contextlib.suppress(OSError):
        channel.send(message)


def announce_stored(config: pytest.Config) -> None:
    """Tell the controller that the last rows of this worker are stored."""
    with contextlib.suppress(OSError):
        config.workerinput[_INPUT].send(_STORED)  # type: ignore[attr-defined]  # xdist's
