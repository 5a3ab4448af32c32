"""Counts each request that is really sent: pays for it, and tells when it started, what it took, and how it ended."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from pytest_crucible.backends.plausible import plausible
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.spending import Till
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.errors import BackendError
from pytest_crucible.records import Emit, Event, Reply, Request


class Metered(Wrapper):
    """The innermost wrapper: whatever passes it is one request on the wire."""

    def __init__(self, inner: Backend, emit: Emit, till: Till | None = None, *, starts: bool = True) -> None:
        """`starts` is whether to tell that a request starts, too."""
        super().__init__(inner)
        self._emit = emit
        self._starts = starts
        self._till = till or Till.of_nobody()

    async def generate(self, request: Request) -> Reply:
        """Raises Spent, and sends nothing, where the budget does not pay for it; BackendError for a reply that cannot be meant."""
        till = self._till
        reserved = await till.reserve(request)
        if self._starts:
            self._tell("request.start", request, None, {})
        started = time.perf_counter()
        try:
            reply = plausible(await self.inner.generate(request))
        except BaseException as error:
            if reserved is not None:
                till.settle(reserved, request, error)
            self._tell("request.stop", request, time.perf_counter() - started, {"error": kind_of(error)})
            raise
        seconds = time.perf_counter() - started
        if reserved is not None:
            till.settle(reserved, request, reply)
        cost = till.cost(reply)
        self._tell("request.stop", request, seconds, _spent(reply, cost))
        return _completed(reply, seconds, cost)

    def _tell(self, name: str, request: Request, seconds: float | None, facts: dict[str, Any]) -> None:
        self._emit(Event.about(name, request, seconds=seconds, facts=facts))


def kind_of(error: BaseException) -> str:
    """The class of an error that is counted: `429`, `timeout`, `cancelled` ...; the type's name where it says none."""
    if isinstance(error, BackendError) and error.kind:
        return error.kind
    return "cancelled" if type(error).__name__ == "CancelledError" else type(error).__name__


def _spent(reply: Reply, cost: float | None) -> dict[str, Any]:
    return {
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "finish": reply.finish,
        "cost_usd": cost,
    }


def _completed(reply: Reply, seconds: float, cost: float | None) -> Reply:
    """With what the backend did not say itself."""
    if reply.latency_s is None:
        return dataclasses.replace(reply, latency_s=seconds, cost_usd=cost)
    return reply if cost is None else dataclasses.replace(reply, cost_usd=cost)
