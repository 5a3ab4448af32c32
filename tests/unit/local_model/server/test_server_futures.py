"""Results that are fetched later: waiting, forgetting, giving up."""

from __future__ import annotations

import asyncio
import json

import pytest

from pytest_crucible.local_model.server.futures import Capacity, Futures
from pytest_crucible.local_model.server.transport import Refusal, Response


def added(futures: Futures, request_id: str) -> asyncio.Future[Response]:
    result: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    futures.add(request_id, result)
    return result


async def finished(futures: Futures, request_id: str, body: bytes = b"{}") -> None:
    added(futures, request_id).set_result(Response(body=body))
    await asyncio.sleep(0)


def run(story):
    return asyncio.run(asyncio.wait_for(story, 60))


def test_a_result_is_waited_for():
    async def story():
        futures = Futures()
        result = added(futures, "a")
        asyncio.get_running_loop().call_later(0.02, result.set_result, Response(body=b"there"))
        return await futures.fetch("a", patience_s=3)

    assert run(story()).body == b"there"


def test_a_result_that_is_not_there_yet_is_try_again_with_408():
    async def story():
        futures = Futures()
        added(futures, "a")
        return await futures.fetch("a", patience_s=0.01)

    response = run(story())

    assert response.status == 408
    assert json.loads(response.body) == {"type": "try_again", "request_id": "a", "queue_state": "active"}


def test_a_client_that_stops_waiting_does_not_end_the_work():
    async def story():
        futures = Futures()
        result = added(futures, "a")
        waiting = asyncio.create_task(futures.fetch("a", patience_s=3))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.sleep(0.01)

        assert not result.done()

    run(story())


def test_an_unknown_request_is_gone():
    async def story():
        with pytest.raises(Refusal, match="request 'a' is unknown") as refusal:
            await Futures().fetch("a", patience_s=0)

        assert refusal.value.status == 410

    run(story())


def test_a_result_can_be_fetched_again():
    async def story():
        futures = Futures()
        await finished(futures, "a", b"x")
        return [(await futures.fetch("a", 0)).body for _ in range(3)]

    assert run(story()) == [b"x"] * 3


def test_a_result_that_is_fetched_at_once_is_kept_once():
    async def story():
        futures = Futures(Capacity(fetched_bytes=600, unfetched_bytes=600))
        for name in "abc":
            added(futures, name).set_result(Response())
            await futures.fetch(name, 0)  # before the futures have heard that it is there
            await asyncio.sleep(0)

        assert [name for name in "abc" if name in futures] == ["c"]

    run(story())


def test_fetched_results_go_before_those_that_nobody_has_seen():
    async def story():
        futures = Futures(Capacity(fetched_bytes=1200))
        for name in "abc":
            await finished(futures, name)
        await futures.fetch("a", 0)
        await futures.fetch("b", 0)
        await futures.fetch("c", 0)
        await finished(futures, "d")

        assert [name for name in "abcd" if name in futures] == ["b", "c", "d"]

    run(story())


def test_results_that_nobody_fetches_are_forgotten_when_they_are_too_many():
    async def story():
        futures = Futures(Capacity(unfetched_bytes=2000))
        for name in "abcd":
            await finished(futures, name, b"x" * 500)

        assert [name for name in "abcd" if name in futures] == ["c", "d"]

    run(story())


def test_too_many_unfinished_requests_are_refused_until_some_are_done():
    async def story():
        futures = Futures(Capacity(unfinished=1))
        first = added(futures, "a")
        with pytest.raises(Refusal, match="1 requests are waiting") as refusal:
            added(futures, "b")

        assert refusal.value.status == 429

        first.set_result(Response())
        await asyncio.sleep(0)
        added(futures, "b")

    run(story())


def test_a_cancelled_request_has_failed_by_its_users_wish():
    async def story():
        futures = Futures()
        result = added(futures, "a")
        futures.cancel("a")
        futures.cancel("a")
        futures.cancel("unknown")
        return result.result()

    assert json.loads(run(story()).body) == {"error": "the request was cancelled", "category": "user"}


def test_at_the_end_what_is_unfinished_fails_and_what_is_done_stays():
    async def story():
        futures = Futures()
        unfinished = added(futures, "a")
        await finished(futures, "b", b"done")
        futures.fail_all("the server was stopped")

        assert json.loads(unfinished.result().body) == {"error": "the server was stopped", "category": "server"}
        assert (await futures.fetch("b", 0)).body == b"done"

    run(story())
