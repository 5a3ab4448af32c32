"""Sessions whose samples are sent by workers of a Ray cluster: their results are those of a plain session.

Ray runs in network namespaces of the tests' own.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, python_path, skip_without_clusters, start_machines

ROOT = Path(__file__).parents[2]
SAMPLES = 300
ALONE = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest")
TEST = """
    from pathlib import Path
    import pytest

    @pytest.fixture(scope="module")
    def log():
        with Path("log.txt").open("a") as file:
            file.write("set up\\n")
        yield "log"
        with Path("log.txt").open("a") as file:
            file.write("torn down\\n")

    @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler, log):
        return await sampler.generate(sample.input)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine():
    """A machine that reaches nothing, where a session starts a local Ray."""
    skip_without_clusters()
    with start_machines(1, environment=python_path(ROOT)) as cluster:
        yield cluster


@pytest.fixture
def sums(suite):
    """A suite of several blocks: replies of 1,000 characters, which are stored apart, and one that is blank."""
    suite.write_rows(
        "sums.jsonl", [{"id": f"s{k}", "input": f"{k} + 1", "expected": str(k + 1)} for k in range(SAMPLES)]
    )
    for name, step in (("good", 10), ("fair", 3)):
        texts = [str(k + 1) if k % step else "no " * 400 for k in range(SAMPLES)]
        suite.write_rows(
            f"answers/{name}.jsonl", [{"sample_id": f"s{k}", "text": text} for k, text in enumerate(texts)]
        )
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("good", "fair")})
    suite.test(TEST, name="test_sums")
    return suite


def run(cluster: Cluster, suite: Any, *arguments: str, name: str = "run") -> tuple[int, str, dict[str, Any]]:
    """Run a session on the first machine. Return exit status, output and JSON."""
    result = cluster.run(
        cluster.machines[0],
        *ALONE,
        "--crucible-adapter=good",
        "--compare=fair",
        f"--crucible-json={name}.json",
        f"--crucible-store={name}.db",
        *arguments,
        cwd=suite.path,
    )
    path = suite.path / f"{name}.json"
    return result.returncode, result.stdout + result.stderr, json.loads(path.read_text()) if path.exists() else {}


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    """Return a run's JSON without ids, times and nodes."""
    for experiment in document["experiments"]:
        experiment["sections"].pop("nodes", None)
    for name in ("id", "started", "finished", "root"):
        document["run"].pop(name)
    return document


def stored(suite: Any, name: str, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(suite.path / f"{name}.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_workers_of_a_cluster_give_the_results_of_a_plain_session(machine, sums):
    replies = "SELECT arm, position, epoch, text, text_id, failure FROM replies ORDER BY arm, position"
    texts = "SELECT id, body FROM texts ORDER BY id"
    _, _, plain = run(machine, sums, name="plain")
    (sums.path / "log.txt").unlink()

    status, output, document = run(machine, sums, "--crucible-executor=ray?per_node=2")

    assert status == 0, output
    assert without_times(document) == without_times(plain)
    assert stored(sums, "run", replies) == stored(sums, "plain", replies)
    assert stored(sums, "run", texts) == stored(sums, "plain", texts)
    blocks = stored(sums, "run", "SELECT number, units, dealt FROM blocks ORDER BY number")
    assert blocks == [(1, 128, 1), (2, 128, 1), (3, 128, 1), (4, 128, 1), (5, 88, 1)]
    # The fixture is set up once a worker, and by the driver, which has the item, too.
    lines = (sums.path / "log.txt").read_text().split("\n")
    assert lines.count("torn down") == lines.count("set up") <= 3
    assert not [process for process in machine.machines[0].processes() if process]


def test_a_fixture_that_a_worker_cannot_build_ends_the_session(machine, sums):
    sums.test(
        """
        import os
        import pytest

        @pytest.fixture
        def db():
            if "RAY_JOB_ID" in os.environ or "ray::" in open("/proc/self/cmdline").read():
                raise ConnectionError("no route to the database")

        @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler, db):
            return await sampler.generate(sample.input)
        """,
        name="test_sums",
    )

    status, output, _ = run(machine, sums, "--crucible-executor=ray")

    assert status == 4
    assert "the fixture 'db' cannot be built on " in output
    assert "ConnectionError: no route to the database" in output


def test_a_cluster_that_cannot_be_reached_is_refused_before_a_request(machine, sums):
    status, output, _ = run(machine, sums, "--crucible-executor=ray://10.77.0.1:10001")

    assert status == 4
    assert "Ray at 10.77.0.1:10001 cannot be reached" in output
