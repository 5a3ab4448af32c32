"""A raylet, a driver and a link fail while a session on two machines runs: no unit is lost, and none is stored twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import PYTHON, Cluster, python_path, skip_without_clusters, start_cluster

ROOT = Path(__file__).parents[2]
PORT, SAMPLES, HELD = 8123, 2000, 3 * 64
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.90")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    """A cluster of two machines, with a server on the first."""
    skip_without_clusters()
    environment = python_path(ROOT, [str(ROOT / "tests")])
    with start_cluster(2, environment=environment) as cluster, serve(cluster):
        yield cluster


@contextlib.contextmanager
def serve(cluster: Cluster) -> Iterator[None]:
    arguments = ("-m", "openai_server", "--host", "0.0.0.0", "--port", str(PORT), "--behaviour", '{"latency_s": 0.3}')
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = cluster.machines[0].command(PYTHON, *arguments)
    with subprocess.Popen(command, env=cluster.variables(), **pipes) as server:
        server.stdout.readline()
        yield
        server.kill()


@pytest.fixture
def sums(suite):
    suite.write_rows("sums.jsonl", [{"id": f"s{k}", "input": f"{k}", "expected": f"{k}"} for k in range(SAMPLES)])
    url = f"http://10.77.0.1:{PORT}/v1"
    suite.adapters({"v2": {"backend": "openai", "base_url": url, "model": "m"}})
    suite.test(TEST, name="test_sums")
    return suite


def start_driver(cluster: Cluster, suite: Any, *arguments: str) -> subprocess.Popen[str]:
    options = ("-q", "-p", "no:cacheprovider", "--crucible-adapter=v2", "--crucible-store=run.db")
    place = "--crucible-executor=auto?concurrency=32"
    return cluster.popen(cluster.machines[0], "-m", "pytest", *options, place, *arguments, cwd=suite.path)


def wait_for_blocks(cluster: Cluster, suite: Any) -> None:
    """Wait until each of the two workers has sent a block."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        time.sleep(0.1)
        with contextlib.suppress(sqlite3.OperationalError):
            if read_store(suite, "SELECT COUNT(DISTINCT node) FROM blocks") == (2,):
                return
    raise TimeoutError("the workers have sent nothing")


def read_store(suite: Any, query: str) -> tuple[Any, ...]:
    connection = sqlite3.connect(f"file:{suite.path / 'run.db'}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchone()
    finally:
        connection.close()


def count_requests(cluster: Cluster) -> int:
    code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{PORT}/control').read().decode())"
    return json.loads(cluster.popen(cluster.machines[0], "-c", code, cwd=ROOT).communicate()[0])["requests"]


def expect_whole_run(cluster: Cluster, suite: Any, driver: subprocess.Popen[str]) -> None:
    """Expect that the session passes, with each unit once, and that only blocks of one worker were sent twice."""
    output = driver.communicate(timeout=200)[0]
    assert driver.returncode == 0, output
    assert read_store(suite, "SELECT COUNT(*), COUNT(DISTINCT position) FROM replies") == (SAMPLES, SAMPLES)
    assert read_store(suite, "SELECT COUNT(*) FROM lost") == (0,)
    assert count_requests(cluster) <= SAMPLES + HELD


@pytest.mark.parametrize("process", ["ray::SuiteWorker", "raylet"])
def test_a_process_that_is_killed_costs_no_reply(cluster, sums, process):
    driver = start_driver(cluster, sums)
    wait_for_blocks(cluster, sums)
    cluster.machines[1].kill(process)
    expect_whole_run(cluster, sums, driver)


def test_a_machine_that_is_cut_off_costs_no_reply_and_no_waiting(cluster, sums):
    driver = start_driver(cluster, sums)
    wait_for_blocks(cluster, sums)
    cluster.cut(cluster.machines[1])
    expect_whole_run(cluster, sums, driver)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_early_is_resumed_with_what_it_has_stored(cluster, sums, number):
    driver = start_driver(cluster, sums)
    wait_for_blocks(cluster, sums)
    os.kill(driver.pid, number)
    output = driver.communicate(timeout=100)[0]
    assert "INTERNALERROR" not in output
    assert driver.returncode == (2 if number == signal.SIGINT else -number)
    (stored,), before = read_store(sums, "SELECT COUNT(*) FROM replies"), count_requests(cluster)
    assert 0 < stored < SAMPLES

    resumed = start_driver(cluster, sums, "--crucible-resume")
    output = resumed.communicate(timeout=200)[0]

    assert resumed.returncode == 0, output
    query = "SELECT COUNT(*), COUNT(DISTINCT position) FROM replies WHERE arm = (SELECT MAX(arm) FROM replies)"
    assert read_store(sums, query) == (SAMPLES, SAMPLES)
    assert count_requests(cluster) - before <= SAMPLES - stored
