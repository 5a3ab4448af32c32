"""Results that are fetched later, and the queue before the model: order, sharing, failing alone."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pytest_crucible.local_model.server.futures import Capacity, Futures, Worker
from pytest_crucible.local_model.server.transport import Refusal, Response

pytestmark = pytest.mark.asyncio


def add(futures: Futures, request_id: str) -> asyncio.Future[Response]:
    result: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    futures.add(request_id, result)
    return result


async def finish(futures: Futures, request_id: str, body: bytes = b"{}") -> None:
    add(futures, request_id).set_result(Response(body=body))
    await asyncio.sleep(0)


async def test_a_result_is_waited_for():
    futures = Futures()
    asyncio.get_running_loop().call_later(0.02, add(futures, "a").set_result, Response(body=b"there"))

    assert (await futures.fetch("a", patience_s=3)).body == b"there"


async def test_an_unfinished_result_is_try_again_with_408():
    futures = Futures()
    add(futures, "a")
    response = await futures.fetch("a", patience_s=0.01)

    assert response.status == 408
    assert json.loads(response.body) == {"type": "try_again", "request_id": "a", "queue_state": "active"}


async def test_a_client_that_stops_waiting_does_not_end_the_work():
    futures = Futures()
    result = add(futures, "a")
    waiting = asyncio.create_task(futures.fetch("a", patience_s=3))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)

    assert not result.done()


async def test_a_result_can_be_fetched_again():
    futures = Futures()
    await finish(futures, "a", b"x")

    assert [(await futures.fetch("a", 0)).body for _ in range(3)] == [b"x"] * 3


async def test_a_result_that_is_fetched_at_once_is_counted_once():
    futures = Futures(Capacity(fetched_bytes=600, unfetched_bytes=600))
    for name in "abc":
        add(futures, name).set_result(Response())
        await futures.fetch(name, 0)  # before the callback of the future has run
        await asyncio.sleep(0)

    assert [name for name in "abc" if name in futures] == ["c"]


async def test_fetched_results_are_dropped_before_unfetched_ones():
    futures = Futures(Capacity(fetched_bytes=1200))
    for name in "abc":
        await finish(futures, name)
    for name in "abc":
        await futures.fetch(name, 0)
    await finish(futures, "d")

    assert [name for name in "abcd" if name in futures] == ["b", "c", "d"]


async def test_too_many_unfetched_results_are_dropped_from_the_oldest():
    futures = Futures(Capacity(unfetched_bytes=2000))
    for name in "abcd":
        await finish(futures, name, b"x" * 500)

    assert [name for name in "abcd" if name in futures] == ["c", "d"]


async def test_too_many_unfinished_requests_are_refused_until_some_are_done():
    futures = Futures(Capacity(unfinished=1))
    first = add(futures, "a")
    with pytest.raises(Refusal, match="1 requests are waiting") as refusal:
        add(futures, "b")
    assert refusal.value.status == 429

    first.set_result(Response())
    await asyncio.sleep(0)
    add(futures, "b")


async def test_a_cancelled_request_has_failed_by_its_users_wish():
    futures = Futures()
    result = add(futures, "a")
    for request_id in ("a", "a", "unknown"):
        futures.cancel(request_id)

    assert json.loads(result.result().body) == {"error": "the request was cancelled", "category": "user"}


async def test_at_the_end_unfinished_requests_fail_and_results_stay():
    futures = Futures()
    unfinished = add(futures, "a")
    await finish(futures, "b", b"done")
    futures.fail_all("the server was stopped")

    assert json.loads(unfinished.result().body) == {"error": "the server was stopped", "category": "server"}
    assert (await futures.fetch("b", 0)).body == b"done"


class Queue:
    """A queue whose first call waits for `gate`, and the names of the calls that were made."""

    def __init__(self) -> None:
        self.work = Worker()
        self.names: list[str] = []
        self.gate = threading.Event()
        self.first = self.work.call(lambda: self.gate.wait(60))

    def call(self, name: str, client: str = "") -> asyncio.Future[str]:
        return self.work.call(lambda: self.compute(name), client)

    def compute(self, name: str) -> str:
        self.names.append(name)
        if name == "bad":
            raise ValueError("bad item")
        return f"{name}!"


@pytest_asyncio.fixture
async def queue() -> AsyncIterator[Queue]:
    queue = Queue()
    yield queue
    queue.gate.set()
    queue.work.stop()
    queue.work.join()


async def test_calls_of_a_client_keep_their_order_and_clients_take_turns(queue):
    results = [queue.call(name, name[0]) for name in ("a0", "a1", "a2", "b0", "b1", "c0")]
    queue.gate.set()

    assert await asyncio.gather(*results) == ["a0!", "a1!", "a2!", "b0!", "b1!", "c0!"]
    assert queue.names == ["a0", "b0", "c0", "a1", "b1", "a2"]


async def test_a_failing_call_does_not_fail_the_others(queue):
    results = [queue.call(name) for name in ("good", "bad", "fine")]
    queue.gate.set()
    good, bad, fine = await asyncio.gather(*results, return_exceptions=True)

    assert (good, fine) == ("good!", "fine!")
    assert isinstance(bad, ValueError)


async def test_a_cancelled_call_is_not_made(queue):
    first, second = (queue.call(name) for name in ("first", "second"))
    first.cancel()
    queue.gate.set()
    await second

    assert queue.names == ["second"]


async def test_all_is_computed_in_one_thread_that_is_not_the_loops(queue):
    queue.gate.set()
    identities = await asyncio.gather(*(queue.work.call(threading.get_ident) for _ in range(5)))

    assert len(set(identities)) == 1
    assert identities[0] != threading.get_ident()


async def test_after_the_stop_nothing_is_begun(queue):
    late = queue.call("late")
    queue.gate.set()
    queue.work.stop()
    await asyncio.sleep(0.05)

    assert not late.done()
    assert queue.names == []
    with pytest.raises(Refusal, match="the server was stopped"):
        await queue.work.call(lambda: None)
