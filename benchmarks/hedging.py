"""What a second request for slow answers saves, and what it costs: every strategy on three laws of latency, over HTTP.

    python -m benchmarks.hedging        # about three minutes

A server in a process of its own answers after 50 ms, give or take; 16 samples are under way at a time. *Heavy tail*: one answer
of a hundred is 20 times slower. *Two humps*: one of ten takes four times as long. *Slow drift*: a heavy tail, while the server
grows from 50 to 100 ms. Each law is measured without hedging first, on the same samples. P99 is the mean of the slowest hundredth:
where exactly one answer of a hundred is slow, the percentile itself is decided by a coin.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.figures import Figure, show
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Request
from tests.openai_server import OpenAIServer

QUESTIONS, CONCURRENCY, LATENCY_S = 3_000, 16, 0.05
STEPS = 10
"""In which a drift is made."""
LAWS: Mapping[str, Mapping[str, float]] = {
    "heavy tail": {"spread": 0.05, "tail_share": 0.01, "tail_times": 20},
    "two humps": {"spread": 0.05, "tail_share": 0.10, "tail_times": 4},
    "slow drift": {"spread": 0.05, "tail_share": 0.01, "tail_times": 20},
}
STRATEGIES: Mapping[str, Mapping[str, Any] | None] = {
    "none": None,
    "fixed": {"strategy": "fixed", "delay_s": 0.1, "max_extra": 0.1},
    "percentile": {"strategy": "percentile", "percentile": 95, "max_extra": 0.1},
    "adaptive": {"strategy": "adaptive", "max_extra": 0.1},
    "workload": {"strategy": "workload", "percentile": 95, "max_extra": 0.1},
}


@dataclass(frozen=True)
class Measured:
    """Of one strategy on one law."""

    median_s: float
    slowest_s: float
    requests: float
    """For each sample."""
    cancelled: int


def measured(server: OpenAIServer, law: str, hedge: Mapping[str, Any] | None) -> Measured:
    server.reset()
    server.behave(latency_s=LATENCY_S, seed=5, **LAWS[law])
    took = asyncio.run(_ask(server, law, hedge))
    counts = server.counts()
    took.sort()
    return Measured(
        median_s=statistics.median(took),
        slowest_s=statistics.fmean(took[-len(took) // 100 :]),
        requests=counts["requests"] / QUESTIONS,
        cancelled=counts["cancelled"],
    )


async def _ask(server: OpenAIServer, law: str, hedge: Mapping[str, Any] | None) -> list[float]:
    asking = {} if hedge is None else {"hedge": hedge}
    adapter = Adapter(name="v2", backend="openai", options={"base_url": server.url, "model": "m"}, asking=asking)
    backend = wrap_backend(open_openai(adapter, Path()), adapter, BackendContext())
    questions, took = iter(range(QUESTIONS)), list[float]()

    async def worker() -> None:
        for number in questions:
            if law == "slow drift" and number % (QUESTIONS // STEPS) == 0:
                slower = LATENCY_S * (1 + number / QUESTIONS)
                await asyncio.to_thread(server.behave, latency_s=slower, seed=5, **LAWS[law])
            started = time.perf_counter()
            await backend.generate(Request(input=f"question {number}", sample=str(number), repeat=0))
            took.append(time.perf_counter() - started)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(worker())
    finally:
        await backend.close()  # type: ignore[attr-defined]
    return took


def table() -> dict[tuple[str, str], Measured]:
    with OpenAIServer.start() as server:
        return {(law, name): measured(server, law, hedge) for law in LAWS for name, hedge in STRATEGIES.items()}


def print_table(found: Mapping[tuple[str, str], Measured]) -> None:
    rows = []
    for (law, name), one in found.items():
        alone = found[law, "none"]
        saved = 1 - one.slowest_s / alone.slowest_s
        shown = f"{one.median_s * 1e3:.1f}", f"{one.slowest_s * 1e3:.0f}", f"{saved:+.0%}", f"{one.requests - 1:+.1%}"
        rows.append((law, name, *shown, one.cancelled))
    heads = ("law", "strategy", "P50 (ms)", "P99 (ms)", "P99 saved", "requests more", "cancelled")
    print(tabulate(rows, headers=heads, tablefmt="github", colalign=("left", "left", *("right",) * 5)), "\n")


def figures(found: Mapping[tuple[str, str], Measured] | None = None) -> list[Figure]:
    found = found or table()
    alone, hedged = (found["heavy tail", name] for name in ("none", "percentile"))
    slower = max(one.median_s / found[law, "none"].median_s for (law, name), one in found.items())
    return [
        Figure(
            name="hedging, heavy tail: P99 left", measured=100 * hedged.slowest_s / alone.slowest_s, unit="%", limit=40
        ),
        Figure(name="- requests more than samples", measured=100 * (hedged.requests - 1), unit="%", limit=6),
        Figure(
            name="- any strategy, any law: P50 over that without", measured=slower, unit="times", limit=1.05, digits=3
        ),
    ]


if __name__ == "__main__":
    all_of_them = table()
    print_table(all_of_them)
    raise SystemExit(show(figures(all_of_them)))
