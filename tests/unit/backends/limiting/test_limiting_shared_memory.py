"""One limiter for several processes: they see each other's requests, and one that dies holds nothing."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Iterator

import pytest
from limiter_process import COUNT, SERVER, LimiterProcess

from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.backends.limiting.limiter import Limiter, Limiters, Workers
from pytest_crucible.records import Reply

MOST = 3
REPLY = Reply(text="4")
pytest.importorskip("fcntl")


@pytest.fixture
def name() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def limiters(name, monkeypatch) -> Iterator[Limiters]:
    monkeypatch.setattr("pytest_crucible.backends.limiting.shared_state.RECLAIM_S", 0.0)
    limiters = Limiters(workers=Workers(name, COUNT))
    yield limiters
    paths = [limiter._state._path for limiter in limiters._limiters.values()]
    limiters.close()
    assert not any(path.exists() for path in paths)


@pytest.fixture
def limiter(limiters) -> Limiter:
    return limiters.of(SERVER, Limits(concurrency=MOST))


def took(limiter: Limiter) -> int:
    """Return how many turns there are at once."""

    async def take() -> int:
        return sum(limiter.try_acquire("v2") is not None for _ in range(MOST + 1))

    return asyncio.run(take())


def test_processes_share_a_limit(name, limiter):
    with LimiterProcess.start(name, MOST) as other:
        assert other.do("take") == "True"
        assert took(limiter) == MOST - 1
        assert other.do("take") == "False"

        other.do("give")

        assert took(limiter) == 1


def test_released_permit_goes_to_a_waiting_process(name, limiter):
    async def wait(other: LimiterProcess) -> None:
        waiting = asyncio.create_task(limiter.acquire("v2"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        other.do("give")
        async with asyncio.timeout(60):
            (await waiting).release(REPLY)

    with LimiterProcess.start(name, MOST) as other:
        assert [other.do("take") for _ in range(MOST)] == ["True"] * MOST

        asyncio.run(wait(other))


def test_permits_of_a_dead_process_are_reclaimed(name, limiter):
    async def wait() -> None:
        async with asyncio.timeout(60):
            (await limiter.acquire("v2")).release(REPLY)

    with LimiterProcess.start(name, MOST) as other:
        assert [other.do("take") for _ in range(MOST)] == ["True"] * MOST
        assert took(limiter) == 0

        other.process.kill()
        other.process.wait()
        asyncio.run(wait())

        assert took(limiter) == MOST


def test_later_process_takes_a_dead_ones_row(name, limiter):
    with LimiterProcess.start(name, MOST) as other:
        assert [other.do("take") for _ in range(MOST)] == ["True"] * MOST
        other.process.kill()
        other.process.wait()

    with LimiterProcess.start(name, MOST) as another:
        assert [another.do("take") for _ in range(MOST + 1)] == ["True"] * MOST + ["False"]
        another.do("close")


def test_pause_holds_for_all_processes(name, limiter):
    with LimiterProcess.start(name, MOST) as other:
        other.do("take")
        other.do("give", "429", "60")

        assert took(limiter) == 0


def test_pause_ends_for_all_processes(name, limiter):
    async def wait() -> None:
        async with asyncio.timeout(60):
            (await limiter.acquire("v2")).release(REPLY)

    with LimiterProcess.start(name, MOST) as other:
        other.do("take")
        began = time.monotonic()
        other.do("give", "429", "0.2")
        asyncio.run(wait())

        assert time.monotonic() - began >= 0.2


def test_closing_releases_all_permits(name, limiter):
    with LimiterProcess.start(name, MOST) as other:
        other.do("take")

        other.do("close")

        assert took(limiter) == MOST


def test_waiting_process_gets_its_share(name, limiters):
    """Two processes get two of four turns each."""
    limiter = limiters.of(SERVER, Limits(concurrency=4))

    async def work(other: LimiterProcess) -> None:
        mine = [limiter.try_acquire("v2") for _ in range(4)]
        other.do("wait")
        mine.pop().release(REPLY)
        assert limiter.try_acquire("v2") is None
        while other.do("count") == "0":
            await asyncio.sleep(0.005)
        other.do("wait")
        for lease in mine:
            lease.release(REPLY)
        assert limiter.try_acquire("v2")

    with LimiterProcess.start(name, 4) as other:
        asyncio.run(work(other))


@pytest.mark.parametrize("missing", ["no fcntl", "no file"])
def test_limits_are_divided_without_a_shared_file(missing, monkeypatch, name, tmp_path):
    if missing == "no fcntl":
        monkeypatch.setitem(sys.modules, "pytest_crucible.backends.limiting.shared_state", None)
    else:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    limiters = Limiters(ordinary=100, workers=Workers(name, 2))

    assert took(limiters.of(SERVER, Limits(concurrency=MOST))) == MOST // 2
