"""Usage of arms that a real server answers, counted on both sides of the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from openai_server import OpenAIServer

MODEL = """
    import asyncio, json
    from pytest_crucible import BackendError, Reply
    from pytest_crucible.records.errors import Retryable

    class Served:
        simulated = False

        def __init__(self, model, port):
            self.identity = self.model = model
            self.port = port

        async def generate(self, request):
            said = {{"model": self.model, "messages": [{{"role": "user", "content": request.input}}]}}
            body = json.dumps(said).encode()
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: {{len(body)}}"
                writer.write(head.encode() + b"\\r\\n\\r\\n" + body)
                answer = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().lower()
                length = int(answer.partition("content-length:")[2].split()[0])
                told = json.loads(await reader.readexactly(length))
                status = int(answer.split()[1])
            finally:
                writer.close()
                await writer.wait_closed()
            if status != 200:
                raise Retryable(f"the server answered {{status}}", kind=str(status))
            used = told["usage"]
            return Reply(
                text=told["choices"][0]["message"]["content"],
                input_tokens=used["prompt_tokens"],
                output_tokens=used["completion_tokens"],
            )

    def pytest_crucible_backend(adapter):
        return Served(adapter.name, {port}) if adapter.backend == "served" else None
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_{name}(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start(latency_s=0.01) as server:
        yield server


@pytest.fixture
def served(suite, server):
    """Two experiments on two models, one of which often fails."""
    server.reset()
    server.behave("flaky", latency_s=0.001, fault="500,429", fault_share=0.3, seed=4)
    suite.pytester.makeconftest(MODEL.format(port=server.url.split(":")[2].removesuffix("/v1")))
    suite.adapters({name: {"backend": "served", "retries": 0} for name in ("steady", "flaky")})
    suite.test(TEST.format(name="sums"))
    suite.test(TEST.format(name="others"), name="test_others")
    return suite


def usages(document: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    usages = (entry for experiment in document["experiments"] for entry in experiment["sections"].get("usage", ()))
    return [usage for usage in usages if usage["arm"] == arm]


def test_usage_equals_the_servers_own_counts(served, server, run):
    document = served.json("--crucible-adapter=steady", "--compare=flaky", run=run)

    counts = server.counts()
    steady, flaky = usages(document, "steady"), usages(document, "flaky")
    assert {"steady": sum(entry["sent"] for entry in steady), "flaky": sum(entry["sent"] for entry in flaky)} == counts[
        "models"
    ]
    failed = sum((Counter(entry["failed"]) for entry in flaky), Counter())
    assert failed == {status: count for status, count in counts["statuses"].items() if status != "200"}
    assert sum(entry["answered"] for entry in steady + flaky) == counts["statuses"]["200"]
    assert all(entry["failed"] == {} for entry in steady)
    assert all(
        entry["answered"] + sum(entry["failed"].values()) + entry["cancelled"] == entry["sent"] for entry in flaky
    )


def test_each_experiment_has_the_latencies_of_its_own_requests(served, run):
    document = served.json("--crucible-adapter=steady", "--compare=flaky", "--crucible-cache=off", run=run)

    for usage in usages(document, "steady"):
        assert usage["latency"]["n"] == usage["answered"] == 20
        assert usage["latency"]["p50"] >= 0.01
        assert usage["seconds"] >= usage["latency"]["p99"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (60, 60)
