"""The limiting wrapper: waits for a permit before each request."""

from __future__ import annotations

import asyncio
from typing import Protocol, runtime_checkable

from pytest_crucible.backends.limiting.headers import RateLimitHeaders
from pytest_crucible.backends.limiting.limiter import Limiter
from pytest_crucible.backends.limiting.permits import Permit
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.sample_clock import paused_clock
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request

# A shorter wait is not published as an event.
NOTICED_S = 0.001
# Responses between two looks at the rate limit headers, which rarely change.
READ_EVERY = 10


@runtime_checkable
class ReportsLimits(Protocol):
    """A backend whose server may report its limits."""

    @property
    def reported_limits(self) -> RateLimitHeaders | None:
        """Limits in the headers of the last response; None if there were none."""


class Limited(Wrapper):
    """One request per permit. Waiting for a permit does not count as the sample's time."""

    def __init__(self, inner: Backend, limiter: Limiter, emit: Emit, *, reporter: object = None) -> None:
        """`reporter` is the backend itself, which may implement ReportsLimits."""
        super().__init__(inner)
        self._limiter = limiter
        self._emit = emit
        self._reporter = reporter if isinstance(reporter, ReportsLimits) else None
        self._answers = 0

    async def generate(self, request: Request) -> Reply:
        permit = self._limiter.try_acquire(request.arm) or await self._wait(request)
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            permit.release(error)
            raise
        permit.release(reply)
        if self._reporter is not None:
            self._read_limits(self._reporter)
        return reply

    def _read_limits(self, backend: ReportsLimits) -> None:
        self._answers += 1
        headers = backend.reported_limits if self._answers % READ_EVERY == 0 else None
        if headers is not None:
            self._limiter.set_server_limits(headers)

    async def _wait(self, request: Request) -> Permit:
        started = asyncio.get_running_loop().time()
        with paused_clock():
            permit = await self._limiter.acquire(request.arm)
        waited = asyncio.get_running_loop().time() - started
        self._limiter.record_wait(waited)
        if waited > NOTICED_S:
            self._publish_wait(request, waited)
        return permit

    def _publish_wait(self, request: Request, waited: float) -> None:
        self._emit(Event.about("limiter.wait", request, seconds=waited))
