"""The workers of a Ray cluster share a budget and cached replies; each node has its own server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import PYTHON, Cluster, python_path, skip_without_clusters, start_cluster

ROOT = Path(__file__).parents[2]
PORT, SAMPLES = 8123, 300
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one machine with a server."""
    skip_without_clusters()
    with start_cluster(1, environment=python_path(ROOT, [str(ROOT / "tests")])) as cluster, serve(cluster):
        yield cluster


@contextlib.contextmanager
def serve(cluster: Cluster) -> Iterator[None]:
    arguments = ("-m", "openai_server", "--host", "0.0.0.0", "--port", str(PORT), "--behaviour", '{"latency_s": 0.02}')
    command = cluster.machines[0].command(PYTHON, *arguments)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=cluster.variables(), **pipes) as server:
        server.stdout.readline()
        yield
        server.kill()


def count_requests(cluster: Cluster) -> int:
    code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{PORT}/control').read().decode())"
    return json.loads(cluster.popen(cluster.machines[0], "-c", code, cwd=ROOT).communicate()[0])["requests"]


@pytest.fixture
def sums(suite):
    suite.write_rows("sums.jsonl", [{"id": f"s{k}", "input": f"{k}", "expected": f"{k}"} for k in range(SAMPLES)])
    suite.adapters({"v2": {"backend": "openai", "base_url": f"http://{{node}}:{PORT}/v1", "model": "m"}})
    suite.test(TEST, name="test_sums")
    return suite


def run(cluster: Cluster, suite, *arguments: str) -> tuple[str, int]:
    """Run a session with two workers. Return its output, and how many requests the server got."""
    before = count_requests(cluster)
    options = ("-q", "-p", "no:cacheprovider", "--crucible-adapter=v2", "--crucible-executor=auto?per_node=2")
    result = cluster.run(cluster.machines[0], *options, *arguments, cwd=suite.path)
    return result.stdout + result.stderr, count_requests(cluster) - before


def test_workers_spend_a_budget_together_and_not_one_request_more(cluster, sums):
    output, requests = run(cluster, sums, "--crucible-budget=100 requests", "--crucible-cache=off")

    assert requests == 100
    assert "100 of 100 requests spent" in output


def test_a_changed_test_takes_all_replies_from_the_drivers_cache(cluster, sums):
    assert run(cluster, sums)[1] == SAMPLES
    sums.test(TEST.replace("return", "assert sample.id\n        return"), name="test_sums")
    assert run(cluster, sums)[1] == 0
