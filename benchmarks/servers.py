"""A whole session against an OpenAI-shaped server that answers after 50 ms: how well waiting overlaps, and CPU time a request.

The ideal is requests x 50 ms / concurrency, counted from the first reply to the last. CPU time is that of the session's process
while it asks: engine, backend and wrappers, scoring, store. The session has one core and the server another, as a server has a
machine of its own.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cores import apart
from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from tests.openai_server import OpenAIServer

LATENCY_S = 0.05
LOADS = ((1_000, 64, 1.05), (10_000, 256, 1.10))
"""Requests, how many at a time, and what waiting may take over the ideal."""
MOST_CPU_MS = 0.35
REPEATS = 5


def figures() -> list[Figure]:
    return [figure for load in LOADS for figure in _figures(*load)]


def _figures(requests: int, concurrency: int, share: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory, OpenAIServer.start(latency_s=LATENCY_S) as server:
        suite = Suite(directory=Path(directory), samples=requests).write()
        with apart(server.process.pid):
            runs = [_asked(suite, server, concurrency) for _ in range(REPEATS)]
    ideal = requests * LATENCY_S / concurrency
    waited, cpu_s = (statistics.median(column) for column in zip(*runs, strict=True))
    name = f"server, {requests:,} requests of 50 ms, {concurrency} at a time: first to last reply"
    yield Figure(name=name, measured=waited, unit="s", limit=share * ideal, digits=3)
    yield Figure(name="- CPU a request", measured=1000 * cpu_s / requests, unit="ms", limit=MOST_CPU_MS, digits=3)


def _asked(suite: Suite, server: OpenAIServer, concurrency: int) -> tuple[float, float]:
    adapter = f"--crucible-adapter=openai+{server.url}#m"
    seen = suite.run(adapter, f"--crucible-concurrency={concurrency}", "--crucible-cache=off")
    replies = suite.last_replies()
    return replies.last_reply - replies.first_reply, seen["asking_cpu_s"]


if __name__ == "__main__":
    raise SystemExit(show(figures()))
