"""The metering wrapper: pays for each request that is sent, and publishes its start, its end and its cost."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from pytest_crucible.backends.budget.spending import CostMeter
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.validate_reply import validate_reply
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import BackendError


class Metered(Wrapper):
    """The innermost wrapper: each call is one request on the wire."""

    def __init__(self, inner: Backend, emit: Emit, meter: CostMeter | None = None, *, starts: bool = True) -> None:
        """`starts`: also publish the start of each request, which costs time when nothing listens."""
        super().__init__(inner)
        self._emit = emit
        self._starts = starts
        self._meter = meter or CostMeter.without_budget()

    async def generate(self, request: Request) -> Reply:
        """Raises Spent, before sending, if the budget is exhausted; BackendError for an invalid reply."""
        meter = self._meter
        reserved = await meter.reserve(request)
        if self._starts:
            self._publish("request.start", request, None, {})
        started = time.perf_counter()
        try:
            reply = validate_reply(await self.inner.generate(request))
        # BaseException: a cancelled request was sent, too, and may be billed.
        except BaseException as error:
            if reserved is not None:
                meter.settle(reserved, request, error)
            self._publish("request.stop", request, time.perf_counter() - started, {"error": error_kind(error)})
            raise
        seconds = time.perf_counter() - started
        if reserved is not None:
            meter.settle(reserved, request, reply)
        cost = meter.cost(reply)
        self._publish("request.stop", request, seconds, _usage_facts(reply, cost))
        return _complete(reply, seconds, cost)

    def _publish(self, name: str, request: Request, seconds: float | None, facts: dict[str, Any]) -> None:
        self._emit(Event.about(name, request, seconds=seconds, facts=facts))


def error_kind(error: BaseException) -> str:
    """Return the class of an error for counting: `429`, `timeout`, `cancelled`, ..., else the type's name."""
    if isinstance(error, BackendError) and error.kind:
        return error.kind
    return "cancelled" if type(error).__name__ == "CancelledError" else type(error).__name__


def _usage_facts(reply: Reply, cost: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "finish": reply.finish,
        "cost_usd": cost,
    }
    if reply.first_token_s is not None:
        facts["first_token_s"] = reply.first_token_s
    if reply.model:
        facts["model"] = reply.model
    return facts


def _complete(reply: Reply, seconds: float, cost: float | None) -> Reply:
    """Add the latency and cost that the backend did not report."""
    # A backend that knows its latency better (a stream, a replay) reports its own.
    if reply.latency_s is None:
        return dataclasses.replace(reply, latency_s=seconds, cost_usd=cost)
    return reply if cost is None else dataclasses.replace(reply, cost_usd=cost)
