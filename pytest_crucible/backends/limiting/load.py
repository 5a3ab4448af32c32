"""The cost of a server's rate: requests refused, and the part of the time in which requests waited instead of being answered."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_crucible.backends.limiting.control import Control

# A smaller part of the time is not worth a sentence.
NOTICEABLE = 0.1


@dataclass(slots=True)
class Load:
    """Counts of the requests of this process, and of their seconds."""

    sent: int = 0
    refused: int = 0
    waited_s: float = 0.0
    """In the limiter's queue, and after refusals."""
    in_flight_s: float = 0.0
    cause: str = ""
    """What the server does, as the limiter has learned it: `it allows about 50 requests/s`."""

    @property
    def waiting_share(self) -> float:
        total = self.waited_s + self.in_flight_s
        return self.waited_s / total if total else 0.0

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent if self.sent else 0.0


def total_load(loads: Iterable[Load]) -> Load:
    """Return the sum of the loads of several servers; the cause is that of the one that was waited for longest."""
    parts = sorted(loads, key=lambda load: -load.waited_s)
    names = ("sent", "refused", "waited_s", "in_flight_s")
    sums = {name: sum(getattr(load, name) for load in parts) for name in names}
    return Load(**sums, cause=parts[0].cause if parts else "")


def explain_load(load: Load) -> str:
    """Return the sentence for the end of a run; empty if hardly any time was spent waiting.

    >>> explain_load(Load(300, 45, 61.0, 39.0, "it refuses 15 % at any rate"))
    "waiting for the server's rate was 61 % of the time: it refuses 15 % at any rate"
    """
    if load.waiting_share < NOTICEABLE or not load.cause:
        return ""
    return f"waiting for the server's rate was {100 * load.waiting_share:.0f} % of the time: {load.cause}"


def describe_limit(control: Control, refused_share: float) -> str:
    """Return what the limiter has learned of a server; empty if it refuses nothing."""
    pacing, window = control.pacing, control.window
    chance = f" and refuses {100 * pacing.chance.share:.0f} % at any rate" if pacing.chance.share else ""
    if window.size < math.inf and window.cubic.limit < math.inf:
        return f"it allows about {window.size:.0f} requests at a time{chance}"
    rate = min(pacing.most, pacing.server_limit, pacing.cubic.limit)
    if rate < math.inf:
        return f"it allows about {rate:.2g} requests/s{chance}"
    if control.token_meter.server_limit < math.inf or control.token_meter.most < math.inf:
        return f"it allows {min(control.token_meter.server_limit, control.token_meter.most):,.0f} tokens a minute"
    return f"it refuses {100 * refused_share:.0f} % at any rate" if refused_share else ""
