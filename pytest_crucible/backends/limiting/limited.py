"""Waits for its turn before each request."""

from __future__ import annotations

import asyncio
from typing import Protocol, runtime_checkable

from pytest_crucible.backends.limiting.leases import Lease
from pytest_crucible.backends.limiting.limiter import Limiter
from pytest_crucible.backends.limiting.told import LimitsTold
from pytest_crucible.backends.patience import not_counted
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request

NOTICED_S = 0.001
"""A shorter wait is not told of."""
HEARS = 10
"""What a server says of its limits is looked at once in so many answers: it says the same each time."""


@runtime_checkable
class TellsLimits(Protocol):
    """A backend whose server may say what it allows."""

    @property
    def limits_seen(self) -> LimitsTold | None:
        """What its last answer said; None where it said nothing."""


class Limited(Wrapper):
    """One request a lease. What a sample waits for its turn is not its own time."""

    def __init__(self, inner: Backend, limiter: Limiter, emit: Emit, *, seen: object = None) -> None:
        """`seen` is the backend itself, which may be one that TellsLimits."""
        super().__init__(inner)
        self._limiter = limiter
        self._emit = emit
        self._seen = seen if isinstance(seen, TellsLimits) else None
        self._answers = 0

    async def generate(self, request: Request) -> Reply:
        lease = self._limiter.at_once(request.arm) or await self._turn(request)
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            lease.release(error)
            raise
        lease.release(reply)
        if self._seen is not None:
            self._hear(self._seen)
        return reply

    def _hear(self, backend: TellsLimits) -> None:
        self._answers += 1
        seen = backend.limits_seen if self._answers % HEARS == 0 else None
        if seen is not None:
            self._limiter.hear(seen)

    async def _turn(self, request: Request) -> Lease:
        started = asyncio.get_running_loop().time()
        with not_counted():
            lease = await self._limiter.turn(request.arm)
        waited = asyncio.get_running_loop().time() - started
        if waited > NOTICED_S:
            self._tell(request, waited)
        return lease

    def _tell(self, request: Request, waited: float) -> None:
        self._emit(Event.about("limiter.wait", request, seconds=waited))
