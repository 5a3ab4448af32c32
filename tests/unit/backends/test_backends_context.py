"""Descriptions of what all backends of a session wait for."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import in_event_loop

from pytest_crucible.backends import context
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import Retryable


@pytest.mark.parametrize(
    ("retry_after_s", "sentence"), [(280.0, "pausing for 280 s, as the server asks"), (2.0, ""), (1e9, ""), (None, "")]
)
@in_event_loop
async def test_pause_is_described_while_it_lasts(retry_after_s, sentence):
    shared, now = BackendContext(), asyncio.get_running_loop().time()
    limiters = [shared.limiters.of(server, Limits()) for server in ("a", "b")]
    exhausted = Retryable("busy", kind="429", retry_after_s=retry_after_s, quota_exhausted=True)
    limiters[0].try_acquire("v2").release(exhausted)
    limiters[1].try_acquire("v2").release(Reply(text="4"))

    assert (shared.waits_for(now), shared.waits_for(now + 300)) == (sentence, "")


def test_unanswering_server_is_named():
    shared = BackendContext()
    circuit = shared.circuits.of("http://a/v1 key", "server http://a/v1")
    for number in range(3):
        circuit.fail(Retryable("no server", kind="connection"), ("a",), 0.0, 0.1 * number)

    assert shared.waits_for(2.0) == "waiting until server http://a/v1 answers again"

    circuit.answer(("a",), 3.0)

    assert shared.waits_for(3.0) == ""


def test_queue_is_described_while_clients_wait(monkeypatch):
    shared, begun = BackendContext(), []
    first, second = shared.queues.open(), shared.queues.open()
    with shared.queues.listening(begun.append):
        for queue, pause in ((first, "A is paused"), (second, "B is paused"), (first, ""), (second, "B is paused")):
            queue.report(pause)

    assert shared.waits_for(0.0) == "B is paused"
    assert (first.pause, second.pause) == ("", "B is paused")
    assert begun == ["A is paused", "B is paused"]

    first.report("A is paused again")
    assert begun == ["A is paused", "B is paused"]
    assert shared.waits_for(0.0) == "A is paused again"

    monkeypatch.setattr(context, "STALE_S", 0.0)
    assert shared.waits_for(0.0) == ""
