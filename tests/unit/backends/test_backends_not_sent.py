"""Requests that a test sends at once are all counted by an estimate, however long the reply cache takes to look one up."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import in_event_loop

from pytest_crucible.backends.protocol import Wrapper
from pytest_crucible.backends.stack import NotSent, StopBeforeSending, StopTogether
from pytest_crucible.records import Reply, Request


class Model:
    identity = "model"
    simulated = True

    async def generate(self, request):
        raise AssertionError("a request was sent")


class SlowCache(Wrapper):
    """Takes as many turns of the event loop as the input says; has the reply to 0."""

    async def generate(self, request):
        for _ in range(request.input):
            await asyncio.sleep(0)
        return Reply(text="cached") if request.input == 0 else await self.inner.generate(request)


@pytest.fixture
def unsent():
    return []


@pytest.fixture
def backend(unsent):
    return StopTogether(SlowCache(StopBeforeSending(Model(), "v2", None, unsent.append)))


def _request(turns, sample="a"):
    return Request(input=turns, sample=sample, repeat=0, arm="v2")


async def _send_in_group(backend, requests):
    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(backend.generate(request))


@pytest.mark.parametrize("turns", [(1, 30), (30, 1), (1, 5, 5, 30)])
def test_concurrent_unsent_requests_are_all_counted(backend, unsent, turns):
    with pytest.raises(BaseExceptionGroup) as raised:
        asyncio.run(_send_in_group(backend, map(_request, turns)))

    assert raised.group_contains(NotSent)
    assert sorted(each.request.input for each in unsent) == sorted(turns)


@in_event_loop
async def test_other_samples_are_not_waited_for(backend, unsent):
    slow = asyncio.create_task(backend.generate(_request(1000, sample="b")))
    await asyncio.sleep(0)
    with pytest.raises(NotSent):
        await backend.generate(_request(1))
    assert not slow.done()
    slow.cancel()
    assert [each.request.sample for each in unsent] == ["a"]


def test_cached_reply_is_returned(backend, unsent):
    assert asyncio.run(backend.generate(_request(0))).text == "cached"
    assert unsent == []
