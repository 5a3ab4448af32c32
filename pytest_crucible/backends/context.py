"""The state that all backends of one session share: events, limits, circuits, queues, cache and budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_crucible.backends.cache import CachePolicy
from pytest_crucible.backends.circuit_breaker import Circuits
from pytest_crucible.backends.limiting.limiters import Limiters
from pytest_crucible.backends.not_sent import UnsentRequest
from pytest_crucible.backends.queue_states import QueueStates
from pytest_crucible.backends.spending import Spending
from pytest_crucible.records import Emit, Event

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
    """Seed of random delays."""
    limiters: Limiters = field(default_factory=Limiters)
    circuits: Circuits = field(default_factory=Circuits)
    queues: QueueStates = field(default_factory=QueueStates)
    cache: CachePolicy | None = None
    """None if replies are neither read nor cached."""
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
