"""Services that let requests wait: which, and why. A service reports it from a thread of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

# A service reports a pause at each poll, within 45 s. Versions of Tinker's SDK before 0.38 do not report its end.
STALE_S = 60.0


class QueueState:
    """Records whether the requests of one client wait at their service. Thread-safe."""

    def __init__(self, on_pause: Callable[[str], None] = lambda pause: None) -> None:
        self._on_pause = on_pause
        self._pause, self._reported_at = "", 0.0

    @property
    def pause(self) -> str:
        """Return why requests wait, such as `Tinker is paused: rate limit`; empty if they do not."""
        return self._pause if time.monotonic() - self._reported_at < STALE_S else ""

    def report(self, pause: str) -> None:
        """Record why requests wait; empty if they do not."""
        is_new = pause and pause != self.pause
        self._pause, self._reported_at = pause, time.monotonic()
        if is_new:
            self._on_pause(pause)


class QueueStates:
    """The queue states of all clients of a session."""

    def __init__(self) -> None:
        self._states: list[QueueState] = []
        self._listeners: list[Callable[[str], None]] = []

    def open(self) -> QueueState:
        """Return the state of a new client."""
        state = QueueState(self._emit)
        self._states.append(state)
        return state

    def describe(self) -> str:
        """Return why requests of one of the clients wait; empty if none does."""
        return next((pause for state in tuple(self._states) if (pause := state.pause)), "")

    @contextlib.contextmanager
    def listening(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call a function with each pause that begins, in the thread that reports it."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def _emit(self, pause: str) -> None:
        for listener in tuple(self._listeners):
            listener(pause)


_CAUSES = {"paused_rate_limit": "rate limit", "paused_capacity": "capacity"}


def watch_queue(client: Any, service: str, queue: QueueState) -> None:
    """Report the queue state of a SamplingClient or TrainingClient to `queue` from now on."""
    # A SamplingClient is its own observer; a TrainingClient has one, which is private to the SDK. Without one it is unwatched.
    observer = getattr(client, "_queue_state_logger", client)
    inner = getattr(observer, "on_queue_state_change", None)
    if inner is None:
        return

    def on_queue_state_change(state: Any, *reason: Any) -> None:
        queue.report(describe_state(service, getattr(state, "value", str(state)), *reason))
        inner(state, *reason)

    observer.on_queue_state_change = on_queue_state_change


def describe_state(service: str, state: str, reason: str | None = None) -> str:
    """Return why requests wait, empty if they do not.

    >>> describe_state("Tinker", "paused_capacity", "GPUs are busy"), describe_state("Tinker", "active")
    ('Tinker is paused: capacity (GPUs are busy)', '')
    """
    if state == "active":
        return ""
    more = f" ({reason})" if reason else ""
    return f"{service} is paused: {_CAUSES.get(state, state)}{more}"
