"""A real server on which one request in ten fails, in every way: through the whole stack nothing is lost and nothing told twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from openai_server import OpenAIServer

from pytest_crucible.backends import circuit_breaker, retried
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Event, Reply, Request

FAULTS = "429,500,502,503,504,reset,close,half,stall,hang,garbage,no_choices,error_200"
MANY = 600


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", ["", "ms:10"], ids=["without retry-after", "with retry-after"])
def test_retryable_faults_are_retried_and_reported_once(retry_after, monkeypatch):
    monkeypatch.setattr(retried, "FIRST_S", 0.02)
    # A busy machine can look like a server in doubt; a probe that fails is sent again without being a retry.
    monkeypatch.setattr(circuit_breaker, "DOUBT_AFTER", 100)
    events: list[Event] = []

    with OpenAIServer.start(fault=FAULTS, fault_share=0.1, retry_after=retry_after, quiet=True) as server:
        replies = asyncio.run(ask_all(server, events))
        counts = server.counts()

    names = Counter(event.name for event in events)
    timeouts = Counter(event.facts.get("error") for event in events)["timeout"]
    hurried = timeouts - counts["faults"]["hang"] - counts["faults"]["stall"]
    """Requests that a busy machine did not answer in time: the server may know of them or not, and may have answered."""
    assert [reply.text for reply in replies] == [f"question {number}" for number in range(MANY)]
    assert set(counts["faults"]) == set(FAULTS.split(","))
    assert names["request.start"] == names["request.stop"] == names["request.retry"] + MANY
    assert 0 <= names["request.start"] - counts["requests"] <= hurried
    assert counts["distinct"] == MANY
    assert counts["answered_again"] <= hurried


async def ask_all(server: OpenAIServer, events: list[Event]) -> list[Reply]:
    asking = {"timeout_s": 0.8, "retries": 8}
    options = {"base_url": server.url, "model": "m"}
    adapter = Adapter(name="v2", backend="openai", options=options, parameters={}, asking=asking)
    backend, shared = (
        open_openai(adapter, Path.cwd()),
        BackendContext(emit=events.append, limiters=Limiters(ordinary=64)),
    )
    top = wrap_backend(backend, adapter, shared)
    try:
        return await asyncio.gather(
            *(top.generate(Request(input=f"question {number}", sample=f"{number}", repeat=0)) for number in range(MANY))
        )
    finally:
        await backend.close()
        shared.limiters.close()
