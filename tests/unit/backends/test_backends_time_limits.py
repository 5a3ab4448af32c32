"""A time limit is what asyncio.timeout is: whatever is written here of the one is asked of both."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time

from pytest_crucible.backends.deadlines import TimeLimit

Limit = Callable[[float | None], Any]


class AsyncTimeLimit(TimeLimit):
    """A time limit that is entered as asyncio's is; ours waits for nothing and needs no `async with` itself."""

    async def __aenter__(self) -> TimeLimit:
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self.__exit__(*error)


BOTH = pytest.mark.parametrize("limit", [AsyncTimeLimit, asyncio.timeout], ids=["ours", "asyncio's"])


def now() -> float:
    return asyncio.get_running_loop().time()


def has_expired(limit: TimeLimit | asyncio.Timeout) -> bool:
    return limit.has_expired if isinstance(limit, TimeLimit) else limit.expired()


# -- what asyncio.timeout does --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("seconds", [2.5, None, math.inf])
@in_virtual_time
async def test_block_in_time_does_not_expire(limit: Limit, seconds: float | None):
    async with limit(seconds) as deadline:
        await asyncio.sleep(2)
    await asyncio.sleep(10)

    assert not has_expired(deadline)


@BOTH
@pytest.mark.parametrize("seconds", [0.0, -1.0])
@in_virtual_time
async def test_limit_of_zero_expires_at_once(limit: Limit, seconds: float):
    with pytest.raises(TimeoutError):
        async with limit(seconds):
            await asyncio.sleep(1)
    assert now() == 0


@BOTH
@pytest.mark.parametrize(("inner", "outer", "raised_at"), [(1, 2, 1), (2, 1, 1)])
@in_virtual_time
async def test_earlier_of_two_limits_expires(limit: Limit, inner: float, outer: float, raised_at: float):
    first, second = limit(outer), limit(inner)
    with pytest.raises(TimeoutError):
        async with first, second:
            await asyncio.sleep(100)
    assert now() == raised_at

    assert (has_expired(first), has_expired(second)) == (outer < inner, inner < outer)


@BOTH
@pytest.mark.parametrize("at", [1, 5], ids=["earlier", "at the same time"])
@in_virtual_time
async def test_other_cancellation_is_not_a_timeout(limit: Limit, at: float):
    async def wait() -> None:
        async with limit(5):
            await asyncio.sleep(100)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_at(at, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == at


@BOTH
@in_virtual_time
async def test_other_error_during_expiry_is_raised(limit: Limit):
    async def stubborn(deadline: Any) -> None:
        async with deadline:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise LookupError from None

    deadline = limit(1)
    with pytest.raises(LookupError):
        await stubborn(deadline)
    task = asyncio.current_task()
    assert task is not None

    assert (has_expired(deadline), task.cancelling()) == (True, 0)


@BOTH
@in_virtual_time
async def test_swallowed_cancellation_continues(limit: Limit):
    async with limit(1) as deadline:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(100)
    await asyncio.sleep(1)

    assert has_expired(deadline)


# -- what is ours ---------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_open_limit_can_be_moved():
    with TimeLimit(1) as limit:
        limit.move(math.inf)
        await asyncio.sleep(10)
        limit.move(now() + 3)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(10)
        assert now() == 13
        limit.move(20)
        assert limit.when == 13
    limit.move(30)
    assert limit.when == 13


@in_virtual_time
async def test_limit_can_be_moved_earlier():
    with contextlib.suppress(TimeoutError), TimeLimit(10) as limit:
        limit.move(2)
        await asyncio.sleep(100)

    assert now() == 2


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 20)), max_size=30))
@in_virtual_time
async def test_many_limits_expire_at_their_own_times(works: list[tuple[int, int, int]]):
    """Each with its limit, what it takes, and when it starts; at the very moment, either may come first."""

    async def run_limited(limit: int, takes: int, starts: int) -> float:
        await asyncio.sleep(starts)
        with contextlib.suppress(TimeoutError), TimeLimit(limit + 0.5):
            await asyncio.sleep(takes)
        return now()

    assert await asyncio.gather(*(run_limited(*work) for work in works)) == [
        starts + min(limit + 0.5, takes) for limit, takes, starts in works
    ]


@in_virtual_time
async def test_thousand_limits_share_one_timer():
    async def run_limited() -> None:
        with TimeLimit(100):
            await asyncio.sleep(1)

    waiting = [asyncio.ensure_future(run_limited()) for _ in range(1_000)]
    await asyncio.sleep(0.5)
    timers = len([handle for handle in asyncio.get_running_loop()._scheduled if handle.when() == 100])  # type: ignore[attr-defined]
    await asyncio.gather(*waiting)

    assert timers == 1


def test_each_loop_has_its_own_timer():
    async def work() -> None:
        with pytest.raises(TimeoutError), TimeLimit(1):
            await asyncio.sleep(100)

    for _ in range(2):
        virtual_time.run(work())
