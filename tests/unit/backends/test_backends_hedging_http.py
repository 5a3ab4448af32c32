"""Over real HTTP: the loser of two requests is cancelled on the wire, and both are paid for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from openai_server import OpenAIServer

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.backends.spending import Spending
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Event, Reply, Request

HEDGE = {"strategy": "fixed", "delay_s": 0.05, "max_extra": 1.0}
REQUEST = Request(input="one two", sample="a", repeat=0, experiment="e", arm="v2", parameters={"max_tokens": 10})


@pytest.fixture
def hedged_request():
    """Ask a server whose first answer never comes; the reply, what was told, what was spent, what the server saw."""
    with OpenAIServer.start(fault="hang", fails_first=1) as server:
        events: list[Event] = []
        money = Spending("10 requests, 1000 tokens, 1 USD")
        adapter = Adapter(
            name="v2",
            backend="openai",
            options={"base_url": server.url, "model": "m"},
            asking={"hedge": HEDGE, "price": {"input": 100, "output": 400}},
        )
        backend = wrap_backend(
            open_openai(adapter, Path()), adapter, BackendContext(emit=events.append, spending=money)
        )

        async def ask() -> Reply:
            reply = await backend.generate(REQUEST)
            await backend.close()
            for _ in range(100):  # until the server has seen that the client hung up
                if (await asyncio.to_thread(server.counts))["cancelled"]:
                    break
                await asyncio.sleep(0.01)
            return reply

        yield asyncio.run(ask()), events, money, server.counts()


def test_losing_request_is_cancelled_on_the_wire(hedged_request):
    reply, events, _, counts = hedged_request

    assert reply.text == "one two"
    assert reply.latency_s >= 0.05
    assert (counts["requests"], counts["cancelled"], counts["concurrent"]) == (2, 1, 0)
    assert sorted(event.name for event in events) == sorted(
        ["request.start", "request.start", "request.stop", "request.stop", "hedge.fired", "hedge.won"]
    )
    assert {"error": "cancelled"} in [event.facts for event in events]


def test_both_requests_are_charged(hedged_request):
    reply, _, money, _ = hedged_request
    tokens = reply.input_tokens + reply.output_tokens
    most = len(REQUEST.input) / 3 + 10

    assert reply.cost_usd == pytest.approx((100 * reply.input_tokens + 400 * reply.output_tokens) / 1e6)
    assert money.run.spent().requests == 2
    assert money.run.spent().tokens == pytest.approx(tokens + most)
