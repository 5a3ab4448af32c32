"""Servers that refuse by chance, alone and above a limit, on a virtual clock: nothing stands still, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from asking import ask_for
from chance_servers import ChanceAndLimit, ChanceServer, ask_units, naive_seconds
from simulated_servers import Bucket, SimulatedServer

from pytest_crucible.backends.retried import DRAWS
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import Retryable

THREADS = (1, 4, 16, 64)
"""The same number at a time as ours: without the cost of threads, 256 of them would be free."""


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    DRAWS.seed(0)


@pytest.mark.parametrize("kind", ["429", "503"])
@pytest.mark.parametrize("tail", [0.0, 0.04], ids=["", "with-a-tail"])
@pytest.mark.parametrize("retry_after_s", [0.2, 1.0, None])
@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_nearly_as_fast_as_a_naive_client(share, retry_after_s, tail, kind):
    ours, naive = 0.0, 0.0
    for seed in range(2):
        server = ChanceServer(share=share, retry_after_s=retry_after_s, tail=tail, kind=kind, seed=seed)
        progress = ask_units(server)
        ours += progress.last_reply
        naive += min(naive_seconds(server, threads) for threads in THREADS)
        assert progress.lost == 0

    assert ours <= 1.15 * naive


def test_chance_refusals_use_no_retries():
    progress = ask_units(ChanceServer(share=0.3, retry_after_s=0.2), retries=0)

    assert progress.lost == 0


def test_always_refused_request_is_lost():
    class Picky(ChanceServer):
        def refuses(self, sample: str, attempt: int) -> bool:
            return sample == "7" or super().refuses(sample, attempt)

    server = Picky(share=0.05, retry_after_s=0.2)

    progress = ask_units(server, retries=2)

    assert progress.lost == 1
    assert 3 < server.attempts["7"] <= 15


def test_slow_server_with_chance_refusals():
    server = ChanceServer(latency_s=0.5, share=0.15, retry_after_s=0.2)

    progress = ask_units(server, 5_000)

    assert progress.last_reply <= 1.1 * naive_seconds(server, 64, 5_000)


@pytest.mark.parametrize("retry_after_s", [None, 1.0], ids=["without-retry-after", "with-retry-after"])
@pytest.mark.parametrize("since", [0.0, 20.0], ids=["from-the-start", "later"])
def test_limit_is_used_despite_chance_refusals(since, retry_after_s):
    server = ChanceAndLimit(rate=50, burst=50, latency_s=0.5, retry_after_s=retry_after_s, since=since)

    run = ask_for(since + 120, server)

    assert server.accepted_rate(since + 10, since + 120) >= 0.9 * 50
    assert server.refused_share(since + 10, since + 120) < 0.25
    assert not run.errors


@pytest.mark.parametrize("factor", [1.1, 1.3])
def test_limit_just_below_the_rate_is_learned(factor):
    server = Bucket(rate=50, burst=50, latency_s=64 / 50 / factor, spread=0.0)

    run = ask_for(120, server)

    assert server.accepted_rate(15, 120) >= 0.95 * 50
    assert server.refused_share(15, 120) < 0.02
    assert not run.errors


class Quota(SimulatedServer):
    """Refuses everything for 20 s from the 31st request on, and reports that nothing is left."""

    async def generate(self, request: Request) -> Reply:
        now = asyncio.get_running_loop().time()
        if len(self.log) >= 30 and now < 20:
            self.log.append((now, False))
            raise Retryable("quota", kind="429", retry_after_s=20.0, quota_exhausted=True)
        return await super().generate(request)


def test_exhausted_quota_pauses_all_requests():
    server = Quota(spread=0.0, latency_s=0.01)

    progress = ask_units(server, 200, concurrency=8)

    assert progress.lost == 0
    assert 1 <= len([now for now, accepted in server.log if not accepted]) <= 8
    assert not [now for now, _ in server.log if 1 < now < 20]
