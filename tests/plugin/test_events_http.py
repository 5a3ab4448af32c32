"""Usage of arms that a real server answers, counted on both sides of the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from openai_server import OpenAIServer

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
    common = {"backend": "openai", "base_url": server.url, "retries": 0}
    suite.adapters({name: {**common, "model": name} for name in ("steady", "flaky")})
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
