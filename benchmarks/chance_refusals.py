"""A server that refuses by chance, queried by this product and by a naive client: 300 requests of 20 ms.

    python -m benchmarks.chance_refusals        # all rows, ten minutes and more

The naive client has threads that sleep as long as the server asks, or 0.2 s; each row has its best time of 1 to 256 threads, in
the same process tree and with the same refusals: the server draws them from the prompt and the number of the attempt. The times
are from the first to the last reply, 64 samples at a time, the least of REPEATS.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT
from tests.openai_server import OpenAIServer

REQUESTS, LATENCY_S, AT_A_TIME = 300, 0.02, 64
SHARES, PAUSES, TAILS = (0.05, 0.15, 0.3), ("0.2", "1", ""), (0.0, 0.04)
TAIL_S = 3.0
THREADS = (1, 4, 16, 64, 128, 256)
# One thread takes more than 20 s where a pause is a second: threads are tried from the most to the fewest while they gain.
WORTH_TRYING = 2.0
REPEATS = 5
NAIVE_PAUSE_S = 0.2
MOST_RATIO = 1.15


@dataclass(frozen=True, slots=True)
class Row:
    """A server that refuses a share of the requests at any rate."""

    share: float
    retry_after: str
    tail: float
    status: str = "429"

    @property
    def name(self) -> str:
        asks = f"Retry-After: {self.retry_after}" if self.retry_after else "no Retry-After"
        tail = f", {self.tail:.0%} take {TAIL_S:g} s" if self.tail else ""
        return f"{self.share:.0%} refused with {self.status}, {asks}{tail}"

    @property
    def behaviour(self) -> dict[str, object]:
        return {
            "latency_s": LATENCY_S,
            "fault": self.status,
            "fault_share": self.share,
            "fault_after_s": 0.0,
            "retry_after": self.retry_after,
            "tail_share": self.tail,
            "tail_times": TAIL_S / LATENCY_S,
        }


def by_chance() -> list[Figure]:
    """It refuses 5, 15 and 30 % at any rate, with and without Retry-After, with and without a tail of slow replies."""
    rows = [Row(*facts) for facts in product(SHARES, PAUSES, TAILS)]
    rows += [Row(0.15, "0.2", 0.0, "503")]
    return [figure for row in rows for figure in _compare(row)]


def _compare(row: Row) -> Iterator[Figure]:
    with OpenAIServer.start(**row.behaviour) as server:
        ours = [_run(server, "ours", AT_A_TIME) for _ in range(REPEATS)]
        naive = _best_naive(server)
    seconds = min(result["seconds"] for result in ours)
    ratio = seconds / naive["seconds"]
    name = f"{row.name}: {seconds:.2f} s, naive {naive['seconds']:.2f} s with {naive['clients']} threads"
    yield Figure(name=name, measured=ratio, unit="x", limit=MOST_RATIO, digits=2)
    lost = sum(result["lost"] for result in ours)
    yield Figure(name="- lost", measured=lost, unit="requests", limit=0, digits=0)


def _best_naive(server: OpenAIServer) -> dict[str, Any]:
    best: dict[str, Any] = {"seconds": float("inf")}
    for threads in reversed(THREADS):
        results = [_run(server, "naive", threads)]
        if results[0]["seconds"] < WORTH_TRYING * best["seconds"]:
            results += [_run(server, "naive", threads) for _ in range(REPEATS - 1)]
        fastest = min(results, key=lambda result: result["seconds"])
        if fastest["seconds"] > WORTH_TRYING * best["seconds"]:
            break
        best = min(best, fastest, key=lambda result: result["seconds"])
    return best


def _run(server: OpenAIServer, client: str, clients: int) -> dict[str, Any]:
    """Query from a process of its own. The server forgets the attempts before, so that all have the same refusals."""
    server.reset()
    command = [sys.executable, "-m", "benchmarks.chance_refusals", "--ask", client, server.url, str(clients)]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return {**found, "clients": clients}


def naive(url: str, threads: int) -> dict[str, Any]:
    """Query from threads, each of which sleeps after a refusal."""

    def send(number: int) -> float:
        while True:
            try:
                body = json.dumps(_body(number), separators=(",", ":")).encode()
                headers = {"content-type": "application/json"}
                urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body, headers)).read()
                return time.perf_counter()
            except urllib.error.HTTPError as error:
                time.sleep(float(error.headers.get("retry-after") or NAIVE_PAUSE_S))

    with ThreadPoolExecutor(threads) as pool:
        replied = list(pool.map(send, range(REQUESTS)))
    return {"seconds": max(replied) - min(replied), "lost": 0}


async def ours(url: str, concurrency: int) -> dict[str, Any]:
    """Query through the whole stack and the engine of a session."""
    from pytest_crucible.backends.context import BackendContext
    from pytest_crucible.backends.limiting.limiter import Limiters
    from pytest_crucible.backends.openai.backend import open_openai
    from pytest_crucible.backends.stack import wrap_backend
    from pytest_crucible.records import Adapter, Outcome, Request, Unit
    from pytest_crucible.records.errors import BackendError
    from pytest_crucible.sample.engine import Progress, run_units

    adapter = Adapter(name="v2", backend="openai", options={"base_url": url, "model": "m"}, parameters={}, asking={})
    shared = BackendContext(limiters=Limiters(ordinary=concurrency))
    backend = open_openai(adapter, Path.cwd())
    top = wrap_backend(backend, adapter, shared)

    async def send(unit: Unit) -> Outcome:
        request = Request(input=f"text {unit.position}", sample=str(unit.position), repeat=0, arm="v2")
        try:
            return Outcome(unit, reply=await top.generate(request))
        except BackendError as error:
            return Outcome(unit, lost="error", detail=str(error))

    progress = Progress(total=REQUESTS)
    await run_units(
        (Unit(position, 0, 0, 0) for position in range(REQUESTS)),
        send,
        lambda outcome: None,
        concurrency=concurrency,
        arms=("v2",),
        planned=[REQUESTS],
        progress=progress,
    )
    await backend.close()
    shared.limiters.close()
    return {"seconds": progress.last_reply - progress.first_reply, "lost": progress.lost}


def _body(number: int) -> dict[str, Any]:
    """The body that the product sends, so that both clients are refused alike."""
    return {"model": "m", "messages": [{"role": "user", "content": f"text {number}"}]}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        client, url, clients = sys.argv[2:]
        result = naive(url, int(clients)) if client == "naive" else asyncio.run(ours(url, int(clients)))
        print(json.dumps(result))
        raise SystemExit
    raise SystemExit(show(by_chance()))
