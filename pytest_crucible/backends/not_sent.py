"""Ends a test function at the first request that would be sent, so that a run can be estimated from real prompts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.backends.spending import Price
from pytest_crucible.records import Reply, Request

_Unit = tuple[str, str, str, int]
"""Experiment, arm, sample and repeat."""


class NotSent(BaseException):
    """A request was ready, and nothing is sent. No `except Exception` of a test may catch it."""


@dataclass(frozen=True, slots=True)
class UnsentRequest:
    """A request that a run would have sent, and the price of its model; None if that is not known."""

    request: Request
    adapter: str
    price: Price | None


class StopBeforeSending(Wrapper):
    """Takes the place of every wrapper that sends. The reply cache is around it: a cached reply costs no request."""

    def __init__(
        self, inner: Backend, adapter: str, price: Price | None, on_request: Callable[[UnsentRequest], None]
    ) -> None:
        super().__init__(inner)
        self._adapter, self._price, self._on_request = adapter, price, on_request

    async def generate(self, request: Request) -> Reply:
        """Raises NotSent."""
        self._on_request(UnsentRequest(request, self._adapter, self._price))
        raise NotSent


class StopTogether(Wrapper):
    """Lets requests that a test sends at once all be counted; it is around the reply cache.

    In a TaskGroup the first that is stopped cancels the others. Those that the cache still looks up would be missing, and how
    many these are would depend on the time that a thread takes.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._open: defaultdict[_Unit, set[asyncio.Future[None]]] = defaultdict(set)

    async def generate(self, request: Request) -> Reply:
        """Raises NotSent when every request of the same unit is stopped or has its cached reply."""
        unit = (request.experiment, request.arm, request.sample, request.repeat)
        done = asyncio.get_running_loop().create_future()
        self._open[unit].add(done)
        try:
            return await self._answer(request, unit, done)
        except NotSent:
            if others := self._open.get(unit):
                await asyncio.wait(others)
            raise

    async def _answer(self, request: Request, unit: _Unit, done: asyncio.Future[None]) -> Reply:
        try:
            return await self.inner.generate(request)
        finally:
            done.set_result(None)
            self._open[unit].discard(done)
            if not self._open[unit]:
                del self._open[unit]
