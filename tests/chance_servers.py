"""Servers that refuse by chance, on a virtual clock, asked by the engine of a session and by a naive client."""

from __future__ import annotations

import asyncio
import heapq
import random
from dataclasses import dataclass, field

import virtual_time
from asking import adapter, request
from simulated_servers import REFUSES_S, Bucket, SimulatedServer

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Outcome, Reply, Request, Unit
from pytest_crucible.records.errors import BackendError, Retryable
from pytest_crucible.sample.engine import Progress, run_units

NAIVE_PAUSE_S = 0.2


@dataclass
class ChanceServer(SimulatedServer):
    """Refuses a share of the attempts: the same ones for every client. Some replies take `tail_s`."""

    latency_s: float = 0.02
    share: float = 0.15
    tail: float = 0.0
    tail_s: float = 3.0
    seed: int = 0
    attempts: dict[str, int] = field(default_factory=dict)

    def refuses(self, sample: str, attempt: int) -> bool:
        return random.Random(f"{self.seed} {sample} {attempt}").random() < self.share

    def takes(self, sample: str) -> float:
        return self.tail_s if random.Random(f"tail {self.seed} {sample}").random() < self.tail else self.latency_s

    async def generate(self, request: Request) -> Reply:
        attempt = self.attempts[request.sample] = self.attempts.get(request.sample, 0) + 1
        if self.refuses(request.sample, attempt):
            await asyncio.sleep(REFUSES_S * (1 + self.draws.random()))
            raise Retryable("slow down", kind=self.kind, retry_after_s=self.retry_after_s)
        await asyncio.sleep(self.takes(request.sample))
        return Reply(text="4", input_tokens=60, output_tokens=40)


@dataclass
class ChanceAndLimit(Bucket):
    """Refuses by chance, and from `since` on what is above a limit."""

    share: float = 0.1
    since: float = 0.0

    def accepts(self, now: float) -> bool:
        if self.draws.random() < self.share:
            return False
        return now < self.since or super().accepts(now)


def ask_units(server: SimulatedServer, samples: int = 300, *, concurrency: int = 64, **asking: object) -> Progress:
    """Ask once for each sample; `last_reply` is the virtual second of the last one."""
    shared = BackendContext(limiters=Limiters(ordinary=concurrency))
    top = wrap_backend(server, adapter(**asking), shared)
    progress = Progress(total=samples)

    async def ask(unit: Unit) -> Outcome:
        try:
            return Outcome(unit, reply=await top.generate(request(str(unit.position))))
        except BackendError as error:
            return Outcome(unit, lost="error", detail=str(error))

    async def work() -> float:
        units = (Unit(position, 0, 0, 0) for position in range(samples))
        await run_units(
            units,
            ask,
            lambda _: None,
            concurrency=concurrency,
            arms=("v2",),
            planned=[samples],
            progress=progress,
        )
        return asyncio.get_running_loop().time()

    progress.last_reply = virtual_time.run(work())
    shared.limiters.close()
    return progress


def naive_seconds(server: ChanceServer, threads: int, samples: int = 300) -> float:
    """Return the time of the last reply to a client with so many threads that sleep after a refusal."""
    free, pause = [0.0] * threads, server.retry_after_s or NAIVE_PAUSE_S
    for number in range(samples):
        now, attempt = free[0], 1
        while server.refuses(str(number), attempt):
            now, attempt = now + REFUSES_S + pause, attempt + 1
        heapq.heapreplace(free, now + server.takes(str(number)))
    return max(free)
