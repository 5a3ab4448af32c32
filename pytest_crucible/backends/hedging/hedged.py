"""Sends a second request when the first takes too long; the first answer counts, and the other request is cancelled."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any

from pytest_crucible.backends.hedging.allowance import Allowance
from pytest_crucible.backends.hedging.settings import Hedge
from pytest_crucible.backends.hedging.survival import Latency
from pytest_crucible.backends.limiting.leases import Lease, Spares
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request

Answer = asyncio.Task[Reply]


class Hedged(Wrapper):
    """A request that fails before the second one went out has failed: asking again is a retry's.

    A second request goes out only while it is allowed (`max_extra`) and the limiter has room to spare.
    """

    def __init__(self, inner: Backend, hedge: Hedge, spares: Spares | None, emit: Emit) -> None:
        super().__init__(inner)
        self._delay = hedge.delay
        self._allowance = Allowance(hedge.max_extra)
        self._spares = spares
        self._emit = emit

    async def generate(self, request: Request) -> Reply:
        delay = self._delay.of(request)
        self._allowance.earn()
        started = _now()
        if math.isinf(delay):
            return self._alone(request, await self.inner.generate(request), started, delay)
        first = asyncio.create_task(self.inner.generate(request))
        try:
            await asyncio.wait((first,), timeout=delay)
            room = None if first.done() else self._room()
            if room is None:
                return self._alone(request, await first, started, delay)
            return await self._both(request, first, room, started, delay)
        finally:
            await _end(first)

    def _alone(self, request: Request, reply: Reply, started: float, delay: float) -> Reply:
        self._delay.learn(request, Latency(_now() - started), delay=delay, hedged=False)
        return reply

    def _room(self) -> Lease | None:
        """The right to send a second request now."""
        lease = _FREE if self._spares is None else self._spares.spare()
        if lease is not None and not self._allowance.spend():
            lease.release()
            return None
        return lease

    async def _both(self, request: Request, first: Answer, room: Lease, started: float, delay: float) -> Reply:
        self._tell("hedge.fired", request, {"delay_s": delay})
        second = asyncio.create_task(self._leased(request, room))
        try:
            winner = await _first_answer(first, second)
            reply, took = winner.result(), _now() - started
        finally:
            await _end(second)
        self._delay.learn(request, Latency(took, cut_off=winner is second), delay=delay, hedged=True)
        if winner is first:
            return reply
        self._tell("hedge.won", request, {"delay_s": delay})
        return dataclasses.replace(reply, latency_s=took)

    async def _leased(self, request: Request, lease: Lease) -> Reply:
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            lease.release(error)
            raise
        lease.release(reply)
        return reply

    def _tell(self, name: str, request: Request, facts: dict[str, Any]) -> None:
        self._emit(Event.about(name, request, facts=facts))


async def _first_answer(first: Answer, second: Answer) -> Answer:
    """The one that answered first; when both failed the first one, whose error it is."""
    pending = {first, second}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        answered = [one for one in (first, second) if one in done and one.exception() is None]
        if answered:
            return answered[0]
    return first


async def _end(task: Answer) -> None:
    """Cancel, and wait until it is over: what it held is closed by then."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # an error that nobody needs any more is not to be warned of


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Free:
    """Room where nothing limits."""

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        """Nothing was taken."""


_FREE = _Free()
