"""The state that all backends of one session share: events, limits, circuits, queues, cache and budget."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import field

from pytest_crucible.backends.cache import CachePolicy
from pytest_crucible.backends.circuit_breaker import Circuits
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.spending import Price, Spending
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Emit, Event, Request

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
    def __init__(self) -> None:
        self._states: list[QueueState] = []
        self._listeners: list[Callable[[str], None]] = []

    def open(self) -> QueueState:
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


@dataclass(frozen=True, slots=True)
class UnsentRequest:
    request: Request
    adapter: str
    price: Price | None


NOTICED_S = 3.0
"""A shorter pause is over before a user has read of it."""


def ignore_event(event: Event) -> None:
    """Drop an event: the default without listeners."""


@dataclass(frozen=True, kw_only=True)
class BackendContext:
    """The shared state of all backends of a session, an argument of `wrap_backend`."""

    emit: Emit = field(default=ignore_event)
    starts: bool = True
    """True when a listener needs an event for the start of each request."""
    seed: int = 0
    limiters: Limiters = field(default_factory=Limiters)
    circuits: Circuits = field(default_factory=Circuits)
    queues: QueueStates = field(default_factory=QueueStates)
    cache: CachePolicy | None = None
    spending: Spending = field(default_factory=Spending)
    on_unsent: Callable[[UnsentRequest], None] | None = None
    """Receives each request that would be sent, where a run is only estimated; None if requests are sent."""

    def waits_for(self, now: float) -> str:
        """Return why no request is sent now, empty if requests are sent. `now` is the loops' clock. Thread-safe."""
        if doubtful := self.circuits.doubtful(now):
            return f"waiting until {doubtful} answers again"
        if queued := self.queues.describe():
            return queued
        paused_s = self.limiters.paused_s(now)
        return f"pausing for {paused_s:.0f} s, as the server asks" if paused_s >= NOTICED_S else ""
