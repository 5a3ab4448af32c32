"""Servers that limit what is asked of them, on a clock of their own making: for tests on a loop with a virtual clock."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import Retryable

REFUSES_S = 0.003


@dataclass
class SimulatedServer:
    """A backend that answers after `latency_s` (lognormal, with sigma `spread`) what it does not refuse."""

    latency_s: float = 0.05
    spread: float = 0.3
    retry_after_s: float | None = None
    kind: str = "429"
    identity: str = "simulated"
    simulated: bool = True
    server: str = "http://simulated/v1"
    model: str = "m"
    log: list[tuple[float, bool]] = field(default_factory=list)
    """When each request came, and whether it was accepted."""
    under_way: int = 0
    draws: random.Random = field(default_factory=lambda: random.Random(0))

    def accepts(self, now: float) -> bool:
        return True

    async def generate(self, request: Request) -> Reply:
        now = asyncio.get_running_loop().time()
        accepted = self.accepts(now)
        self.log.append((now, accepted))
        if not accepted:
            await asyncio.sleep(REFUSES_S * (1 + self.draws.random()))
            raise Retryable("too much", kind=self.kind, retry_after_s=self.retry_after_s)
        self.under_way += 1
        try:
            await asyncio.sleep(self.latency())
        finally:
            self.under_way -= 1
        return Reply(text="4", input_tokens=60, output_tokens=40)

    def latency(self) -> float:
        return self.latency_s * math.exp(self.spread * self.draws.gauss(0, 1))

    def accepted_rate(self, start: float, end: float) -> float:
        """Requests a second that were accepted in a time."""
        return sum(good for at, good in self.log if start <= at < end) / (end - start)

    def refused_share(self, start: float, end: float) -> float:
        """Share of requests that were refused in a time."""
        answers = [good for at, good in self.log if start <= at < end]
        return 1 - sum(answers) / max(1, len(answers))


@dataclass
class Bucket(SimulatedServer):
    """So many requests a second, up to `burst` at once. `changes` has (when, rate)."""

    rate: float = 50.0
    burst: float = 50.0
    changes: Iterable[tuple[float, float]] = ()
    _tokens: float = math.inf
    _filled_at: float = 0.0

    def accepts(self, now: float) -> bool:
        rate = [self.rate, *(rate for at, rate in self.changes if at <= now)][-1]
        self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass
class Slots(SimulatedServer):
    """So many requests at a time."""

    slots: int = 10

    def accepts(self, now: float) -> bool:
        return self.under_way < self.slots


@dataclass
class Minutes(SimulatedServer):
    """So many requests in each minute."""

    most: int = 600
    _minute: int = -1
    _count: int = 0

    def accepts(self, now: float) -> bool:
        if int(now / 60) != self._minute:
            self._minute, self._count = int(now / 60), 0
        self._count += 1
        return self._count <= self.most
