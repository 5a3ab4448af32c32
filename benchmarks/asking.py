"""What the wrappers around a backend cost: CPU time a request, with a backend that answers at once.

Each is the least mean of 5 times 4,000 requests, less what the backend itself takes.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable

from benchmarks.figures import Figure, show
from pytest_crucible.backends import retried
from pytest_crucible.backends.circuit_breaker import Circuit, CircuitBreaker
from pytest_crucible.backends.context import BackendContext, ignore_event
from pytest_crucible.backends.deadlines import Timed
from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.backends.limiting.limiter import Limited, Limiters, Workers
from pytest_crucible.backends.spending import Metered
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import Retryable

REQUESTS, REPEATS = 4_000, 5
REQUEST = Request(input="2 + 2", sample="a", repeat=0, arm="v2")
REPLY = Reply(text="4", input_tokens=60, output_tokens=40, latency_s=0.1)


class Instant:
    """Answers at once; every second request fails first where it is to."""

    identity, simulated = "instant", False
    server, model = "http://host/v1", "m"

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self._count = 0

    async def generate(self, request: Request) -> Reply:
        self._count += 1
        if self._fails and self._count % 2:
            raise Retryable("busy", kind="429")
        return REPLY


def figures() -> list[Figure]:
    bare = _cost(Instant().generate)
    mine, shared = Limiters(ordinary=64), Limiters(ordinary=64, workers=Workers(secrets.token_hex(6), 2))
    adapter = Adapter(name="v2", backend="instant", options={}, parameters={}, asking={})
    asked = {
        "retries": (retried.Retried(Instant(), ignore_event), None),
        "breaker": (CircuitBreaker(Instant(), Circuit("server")), None),
        "limiter, one process": (Limited(Instant(), mine.of("server", Limits()), ignore_event), 15),
        "limiter, shared by processes": (Limited(Instant(), shared.of("server", Limits()), ignore_event), 40),
        "events of a request": (Metered(Instant(), ignore_event), None),
        "deadline of a request": (Timed(Instant(), 120.0), None),
        "all of them, one process": (wrap_backend(Instant(), adapter, BackendContext()), None),
    }
    found = [
        Figure(name=f"asking: {name}", measured=_cost(one.generate) - bare, unit="us", limit=limit)
        for name, (one, limit) in asked.items()
    ]
    shared.close()
    return [*found, Figure(name="- a retry", measured=_retry() - bare, unit="us")]


def _retry() -> float:
    """Of a request that fails once, without the wait."""
    first, retried.FIRST_S = retried.FIRST_S, 0.0
    try:
        return _cost(retried.Retried(Instant(fails=True), ignore_event).generate)
    finally:
        retried.FIRST_S = first


def _cost(generate: Callable[[Request], Awaitable[Reply]]) -> float:
    """Microseconds a request."""

    async def ask() -> float:
        started = time.process_time()
        for _ in range(REQUESTS):
            await generate(REQUEST)
        return (time.process_time() - started) / REQUESTS * 1e6

    return min(asyncio.run(ask()) for _ in range(REPEATS))


if __name__ == "__main__":
    raise SystemExit(show(figures()))
