"""A server's limit, held by workers that lease shares of it on Ray, beside processes of one machine that share a file.

    python -m benchmarks.leases            # about two minutes
    python -m benchmarks.leases desk       # what leasing costs the actor

A server over HTTP takes 50 requests a second and says nothing but 429. Four workers ask it, 64 samples at a time each, as much as
their limiters let through; `benchmarks.limits` has the same with processes that share a file. *Held* is what was accepted over what
is allowed, *refused* the share of requests that were answered 429, both after the first 5 s.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.limits import AT_A_TIME, LATENCY_S, RATE, SECONDS, Seen, ask_within, processes
from benchmarks.limits import _held as held
from tests.openai_server import OpenAIServer

WORKERS = 4
EXCHANGES = 2_000
# Of one core, with 64 workers that exchange five times a second and send 100 requests each between.
MOST_CORE = 50.0


def on_ray() -> list[Figure]:
    """Four workers on Ray, and four processes that share a file, one after the other."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    from pytest_crucible.features.scale.leases import close_shared, share_by_workers

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    run, work = secrets.token_hex(6), ray.remote(num_cpus=1)(ask_in_worker)
    share_by_workers(run, WORKERS, NoRows())
    try:
        # Processes take long to start on a busy machine, and the seconds count from the first request.
        ray.get([work.remote("", run, 0) for _ in range(WORKERS)])
        with OpenAIServer.start(latency_s=LATENCY_S, rate=RATE, quiet=True) as server:
            lost = sum(ray.get([work.remote(server.url, run, SECONDS + 0.5) for _ in range(WORKERS)]))
            counts = server.counts()
    finally:
        close_shared(run)
        ray.shutdown()
    record = Seen([tuple(row) for row in counts["seconds"]], lost, counts["most_concurrent"])
    return [*held("4 workers on Ray", record), *processes()]


class NoRows:
    """An empty reply cache."""

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        return [], []

    def find_adapter(self, settings: str) -> None:
        return None


def ask_in_worker(url: str, run: str, seconds: float) -> int:
    """Ask as much as the leases allow; how many requests were lost."""
    return asyncio.run(_ask(url, run, seconds)) if url else 0


async def _ask(url: str, run: str, seconds: float) -> int:
    from pytest_crucible.backends.limiting.limiter import Limiters
    from pytest_crucible.features.scale.leases import share_by_workers

    shared = share_by_workers(run, WORKERS)
    limiters = Limiters(ordinary=WORKERS * AT_A_TIME, open_state=shared.open_limiter_state)
    return await ask_within(limiters, url, run, seconds)


def desk() -> list[Figure]:
    """CPU time of the actor for 64 workers that send 500 requests/s each, without the calls themselves."""
    from pytest_crucible.features.scale.leases import LeaseDesk
    from pytest_crucible.features.scale.limit_leases import Ended, LimitReport, Stamp

    leases, stamp = LeaseDesk(), Stamp(0.0, float("inf"))
    ended = (Ended(stamp, 1.0, paced=False, settled=False),) * 100
    started = time.process_time()
    for number in range(EXCHANGES):
        report = LimitReport(number, waits=True, sent={stamp: 100}, ended=ended)
        leases.exchange(f"w{number % 64}", {"server": report})
    each = (time.process_time() - started) / EXCHANGES
    return [
        Figure(
            name="64 workers, 32,000 requests/s: of one core", measured=100 * each * 5 * 64, unit="%", limit=MOST_CORE
        ),
        Figure(name="- one exchange with 100 requests", measured=1000 * each, unit="ms", digits=3),
    ]


ALL: dict[str, Callable[[], list[Figure]]] = {"on_ray": on_ray, "desk": desk}


def figures() -> list[Figure]:
    return [figure for measured in ALL.values() for figure in measured()]


if __name__ == "__main__":
    raise SystemExit(show([figure for name in (sys.argv[1:] or ALL) for figure in ALL[name]()]))
