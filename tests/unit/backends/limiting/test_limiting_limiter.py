"""Turns: at once where there is room, in order where there is none, and given back whatever happens."""

from __future__ import annotations

import asyncio
import functools
import math
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from virtual_time import run

from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.backends.limiting.limiter import Limiter, Limiters, Workers
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError, Retryable

REPLY = Reply(text="4", input_tokens=60, output_tokens=40)


@pytest.fixture(params=["private", "shared"])
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[..., Limiters]]:
    """Limiters, of one process or of several of which the others do nothing."""
    every: list[Limiters] = []

    def open_limiters(ordinary: float = math.inf) -> Limiters:
        workers = Workers(secrets.token_hex(6), 2) if request.param == "shared" else None
        every.append(Limiters(ordinary=ordinary, workers=workers))
        return every[-1]

    yield open_limiters
    for limiters in every:
        limiters.close()


@pytest.fixture
def limiter(opened: Callable[..., Limiters]) -> Callable[..., Limiter]:
    def open_limiter(ordinary: float = math.inf, **limits: float) -> Limiter:
        return opened(ordinary).of("http://host/v1 key", Limits(**limits))

    return open_limiter


def leaving_nothing_behind(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on a virtual clock; in the end there is no task, and no timer."""

    @functools.wraps(test)
    def run_test(*arguments: object, **named: object) -> None:
        async def run_alone() -> None:
            await test(*arguments, **named)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert not [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]

        run(run_alone())

    return run_test


async def start_waiting(turns: Limiter, count: int = 1) -> list[Any]:
    """Hold the only permit, and let requests wait for it: the permit, and the tasks."""
    held = turns.try_acquire("v2")
    tasks = [asyncio.create_task(turns.acquire("v2")) for _ in range(count)]
    await asyncio.sleep(0)
    return [held, *tasks]


@leaving_nothing_behind
async def test_permits_are_issued_at_once_without_limits(limiter):
    turns = limiter()
    leases = [turns.try_acquire("v2") for _ in range(1_000)]
    assert all(leases)


@leaving_nothing_behind
async def test_full_limiter_issues_no_permit(limiter):
    turns = limiter(concurrency=2)
    first, second, third = (turns.try_acquire("v2") for _ in range(3))
    assert first
    assert second
    assert third is None
    first.release(REPLY)
    assert turns.try_acquire("v2")


@leaving_nothing_behind
async def test_released_permit_goes_to_a_waiting_request(limiter):
    turns = limiter(concurrency=1)
    held = turns.try_acquire("v2")
    waiting = asyncio.create_task(turns.acquire("v2"))
    await asyncio.sleep(1)
    assert not waiting.done()
    held.release(REPLY)
    lease = await waiting
    assert turns.try_acquire("v2") is None
    lease.release(REPLY)


@leaving_nothing_behind
async def test_arms_take_turns_in_order(limiter):
    turns, order = limiter(concurrency=1), []

    async def ask(arm: str, number: int) -> None:
        lease = await turns.acquire(arm)
        order.append(f"{arm}{number}")
        await asyncio.sleep(0.1)
        lease.release(REPLY)

    many = [asyncio.create_task(ask("a", number)) for number in range(4)]
    few = [asyncio.create_task(ask("b", number)) for number in range(2)]
    await asyncio.gather(*many, *few)
    assert order == ["a0", "a1", "b0", "a2", "b1", "a3"]


@leaving_nothing_behind
async def test_cancelled_waiter_takes_no_permit(limiter):
    turns = limiter(concurrency=1)
    held, impatient, patient = await start_waiting(turns, 2)
    impatient.cancel()
    await asyncio.sleep(0)
    held.release(REPLY)
    lease = await patient
    lease.release(REPLY)
    assert turns.try_acquire("v2")


@leaving_nothing_behind
async def test_permit_issued_during_cancellation_is_released(limiter):
    turns = limiter(concurrency=1)
    held, waiting = await start_waiting(turns)
    held.release(REPLY)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert turns.try_acquire("v2")


@leaving_nothing_behind
async def test_waiter_being_cancelled_is_skipped(limiter):
    turns = limiter(concurrency=1)
    held, waiting, following = await start_waiting(turns, 2)
    waiting.cancel()
    held.release(REPLY)
    (await following).release(REPLY)
    await asyncio.gather(waiting, return_exceptions=True)


@leaving_nothing_behind
async def test_permit_release_is_idempotent(limiter):
    turns = limiter(concurrency=1)
    lease = turns.try_acquire("v2")
    lease.release(REPLY)
    lease.release(REPLY)
    assert turns.try_acquire("v2")
    assert turns.try_acquire("v2") is None


@pytest.mark.parametrize(
    "outcome", [REPLY, None, asyncio.CancelledError(), BackendError("no"), Retryable("no", kind="500"), ValueError()]
)
@leaving_nothing_behind
async def test_any_outcome_releases_the_permit(limiter, outcome):
    turns = limiter(concurrency=1)
    turns.try_acquire("v2").release(outcome)
    assert turns.try_acquire("v2")


@leaving_nothing_behind
async def test_single_refusal_pauses_no_other_request(limiter):
    turns = limiter()
    turns.try_acquire("v2").release(Retryable("too much", kind="429", retry_after_s=3.0))
    assert turns.try_acquire("v1")


@leaving_nothing_behind
async def test_clustered_refusals_pause_all(limiter):
    turns = limiter()
    leases = [turns.try_acquire("v2") for _ in range(60)]
    for lease in leases[50:]:
        lease.release(Retryable("too much", kind="429", retry_after_s=3.0))
    assert turns.try_acquire("v1") is None
    assert turns.paused_s(asyncio.get_running_loop().time()) == 3.0


@pytest.mark.parametrize("retry_after_s", [601.0, math.inf])
@leaving_nothing_behind
async def test_very_long_pauses_are_ignored(limiter, retry_after_s):
    turns = limiter()
    exhausted = Retryable("come tomorrow", kind="429", retry_after_s=retry_after_s, quota_exhausted=True)
    turns.try_acquire("v2").release(exhausted)
    started = asyncio.get_running_loop().time()
    await turns.acquire("v1")
    assert asyncio.get_running_loop().time() - started < 30


@leaving_nothing_behind
async def test_permits_of_a_rate_are_evenly_spaced(limiter):
    turns, started = limiter(requests_per_second=10), []
    for _ in range(11):
        lease = turns.try_acquire("v2") or await turns.acquire("v2")
        started.append(asyncio.get_running_loop().time())
        lease.release(REPLY)
    assert started == pytest.approx([number / 10 for number in range(11)])


@leaving_nothing_behind
async def test_adapters_of_a_server_share_the_strictest_limit(opened):
    limiters = opened()
    first = limiters.of("http://host/v1 key", Limits(concurrency=8))
    second = limiters.of("http://host/v1 key", Limits(concurrency=2))
    other = limiters.of("http://host/v1 another key", Limits())
    assert first is second
    assert [bool(first.try_acquire("v2")) for _ in range(3)] == [True, True, False]
    assert other.try_acquire("v2")


# -- spare requests -------------------------------------------------------------------------------------------------


@leaving_nothing_behind
async def test_spare_permit_beyond_ordinary_concurrency(limiter):
    turns = limiter(ordinary=1)
    assert turns.try_acquire("v2")
    assert turns.try_acquire("v2") is None
    assert turns.try_spare()


@leaving_nothing_behind
async def test_spare_permit_does_not_reduce_ordinary_permits(limiter):
    turns = limiter(ordinary=1)
    first = turns.try_acquire("v2")
    spare = turns.try_spare()
    first.release(REPLY)
    assert turns.try_acquire("v2")
    spare.release(REPLY)
    assert turns.try_acquire("v2") is None


@leaving_nothing_behind
async def test_no_spare_permit_above_the_users_limit(limiter):
    turns = limiter(concurrency=2)
    assert turns.try_acquire("v2")
    assert turns.try_spare()
    assert turns.try_spare() is None


@leaving_nothing_behind
async def test_no_spare_permit_while_requests_wait(limiter):
    turns = limiter(ordinary=1)
    held, waiting = await start_waiting(turns)
    assert turns.try_spare() is None
    held.release(REPLY)
    (await waiting).release(REPLY)


@pytest.mark.parametrize("retry_after_s", [None, 1.0])
@leaving_nothing_behind
async def test_no_spare_permit_soon_after_a_refusal(limiter, retry_after_s):
    turns = limiter()
    assert turns.try_spare()
    exhausted = Retryable("too much", kind="429", retry_after_s=retry_after_s, quota_exhausted=True)
    turns.try_acquire("v2").release(exhausted)
    assert turns.try_spare() is None
    await asyncio.sleep(4)
    assert turns.try_spare() is None
    await asyncio.sleep(3)
    assert turns.try_spare()
