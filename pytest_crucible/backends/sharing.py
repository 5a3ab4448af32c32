"""What the backends of one session share: to whom they tell what happens, and what they may spend together."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_crucible.backends.breaker import Circuits
from pytest_crucible.backends.caching import Caching
from pytest_crucible.backends.limiting.limiters import Limiters
from pytest_crucible.backends.spending import Spending
from pytest_crucible.records import Emit, Event


def untold(event: Event) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Handed to `stacked` for every adapter of a session."""

    emit: Emit = field(default=untold)
    seed: int = 0
    """Of what is drawn while asking."""
    limiters: Limiters = field(default_factory=Limiters)
    circuits: Circuits = field(default_factory=Circuits)
    cache: Caching | None = None
    """None where replies are neither read nor kept."""
    spending: Spending = field(default_factory=Spending)
