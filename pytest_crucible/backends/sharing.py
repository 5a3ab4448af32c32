"""What the backends of one session share: to whom they tell what happens, and what they may spend together."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_crucible.backends.breaker import Circuits
from pytest_crucible.backends.caching import Caching
from pytest_crucible.backends.limiting.limiters import Limiters
from pytest_crucible.backends.spending import Spending
from pytest_crucible.records import Emit, Event

NOTICED_S = 3.0
"""A shorter pause is over before it is read."""


def untold(event: Event) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Handed to `stacked` for every adapter of a session."""

    emit: Emit = field(default=untold)
    starts: bool = True
    """Whether anybody wants to know that a request starts."""
    seed: int = 0
    """Of what is drawn while asking."""
    limiters: Limiters = field(default_factory=Limiters)
    circuits: Circuits = field(default_factory=Circuits)
    cache: Caching | None = None
    """None where replies are neither read nor kept."""
    spending: Spending = field(default_factory=Spending)

    def waits_for(self, now: float) -> str:
        """Why nobody is asked at this moment, by the clock of the loops; empty where somebody is. Any thread may call it."""
        if doubtful := self.circuits.doubtful(now):
            return f"waiting until {doubtful} answers again"
        paused_s = self.limiters.paused_s(now)
        return f"pausing for {paused_s:.0f} s, as the server asks" if paused_s >= NOTICED_S else ""
