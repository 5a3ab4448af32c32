"""Adapters that are guards: `guard:NAME`, judged like any other model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options, required_text
from pytest_crucible.guards.guard import Guard
from pytest_crucible.records import Adapter, Reply, Request


class GuardBackend:
    """Replies to a text with a guard's judgement of it."""

    simulated = False
    is_instant = True

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.identity = f"guard {guard.identity}"

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError if the guard failed and a failure loses the sample."""
        started = time.perf_counter()
        detection = await self.guard.detect(input_text(request.input))
        label = f"flagged: {detection.category}" if detection.flagged and detection.category else "flagged"
        return Reply(
            text=label if detection.flagged else "passed",
            detection=detection,
            latency_s=time.perf_counter() - started if detection.latency_s is None else detection.latency_s,
            input_tokens=0,
            output_tokens=0,
            cost_usd=0.0,
        )


def input_text(value: Any) -> str:
    """Return the text that a guard reads in a request: the input, or its messages without the system prompt.

    >>> input_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])
    'Hello'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(message, Mapping) for message in value):
        return "\n".join(str(message.get("content", "")) for message in value if message.get("role") != "system")
    return str(value)


def open_guard(adapter: Adapter, context: AdapterContext) -> GuardBackend:
    """Return the backend of the guard that `guard` names. Raises SpecError."""
    check_options(adapter, ("guard",))
    return GuardBackend(context.guards.open(required_text(adapter, "guard"), f"adapter {adapter.name!r}"))
