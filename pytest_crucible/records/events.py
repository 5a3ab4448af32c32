"""Events between a request and its reply, for the run store and for listeners."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records.outcomes import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event, with its experiment, arm and sample; each is empty if the event belongs to none.

    Names are `request.stop`, `request.retry`, `limiter.wait`, `hedge.fired`, `hedge.won`, `cache.hit`, `vote`,
    `budget`, `checkpoint`, `train.step`, and where somebody listens `request.start`, `experiment.start`, `experiment.stop`,
    `sample.start` and `sample.stop`; what each has in `facts` is in docs/reference/events.md.
    """

    name: str
    at: float
    """Seconds since 1970, when it was over."""
    seconds: float | None = None
    """Its duration; None for events without one."""
    experiment: str = ""
    arm: str = ""
    sample: str = ""
    repeat: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def about(
        cls, name: str, request: Request, *, seconds: float | None = None, facts: Mapping[str, Any] | None = None
    ) -> Event:
        """Return an event of a request that happens now."""
        return cls(
            name=name,
            at=time.time(),
            seconds=seconds,
            experiment=request.experiment,
            arm=request.arm,
            sample=request.sample,
            repeat=request.repeat,
            facts={"member": request.member, **(facts or {})} if request.member else facts or {},
        )


# Emits an event. It is called on the sampling loop, and must be quick.
Emit = Callable[[Event], None]
