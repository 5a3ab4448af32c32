"""Sessions whose samples are sent by workers of a Ray cluster: their results are those of a plain session.

Ray runs in network namespaces of the tests' own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from clusters import Cluster, python_path, skip_without_clusters, start_cluster, start_machines

ROOT = Path(__file__).parents[2]
SAMPLES = 300
ALONE = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest")
TEST = """
    import sys
    from pathlib import Path
    import pytest

    @pytest.fixture(scope="module")
    def log():
        with Path("log.txt").open("a") as file:
            file.write("set up\\n")
        with Path("loaded.txt").open("a") as file:
            file.write("pandas\\n" if "pandas" in sys.modules else "nothing\\n")
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
def cluster():
    """A cluster of one machine."""
    skip_without_clusters()
    with start_cluster(1, environment=python_path(ROOT)) as cluster:
        yield cluster


def workers_of(cluster: Cluster) -> list[int]:
    """Return the ids of processes that run a suite."""
    commands = {process: Path(f"/proc/{process}/cmdline") for process in cluster.machines[0].processes()}
    return [process for process, path in commands.items() if path.exists() and "SuiteWorker" in path.read_text()]


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


def run(
    cluster: Cluster, suite: Any, *arguments: str, name: str = "run", compare: str = "fair"
) -> tuple[int, str, dict[str, Any]]:
    """Run a session on the first machine. Return exit status, output and JSON."""
    result = cluster.run(
        cluster.machines[0],
        *ALONE,
        "--crucible-adapter=good",
        f"--compare={compare}",
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


def read_store(suite: Any, name: str, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{suite.path / name}.db?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_of_a_cluster_give_the_results_of_a_plain_session(cluster, sums, workers):
    replies = "SELECT arm, position, epoch, text, text_id, failure FROM replies ORDER BY arm, position"
    texts = "SELECT id, body FROM texts ORDER BY id"
    _, _, plain = run(cluster, sums, name="plain")
    for name in ("log.txt", "loaded.txt"):
        (sums.path / name).unlink()

    status, output, document = run(cluster, sums, f"--crucible-executor=auto?per_node={workers}")

    assert status == 0, output
    assert without_times(document) == without_times(plain)
    assert read_store(sums, "run", replies) == read_store(sums, "plain", replies)
    assert read_store(sums, "run", texts) == read_store(sums, "plain", texts)
    blocks = read_store(sums, "run", "SELECT number, units, dealt FROM blocks ORDER BY number")
    assert blocks == [(1, 128, 1), (2, 128, 1), (3, 128, 1), (4, 128, 1), (5, 88, 1)]
    # The fixture is set up once a worker, and by the driver, which has the item, too.
    lines = (sums.path / "log.txt").read_text().split("\n")
    assert lines.count("torn down") == lines.count("set up") <= 1 + workers
    # pyarrow imports it for its first array: after the first replies that would leave all places of a server empty for a second.
    # The driver makes no arrays.
    if find_spec("pandas"):
        assert (sums.path / "loaded.txt").read_text().split().count("nothing") <= 1
    until = time.monotonic() + 10
    while workers_of(cluster) and time.monotonic() < until:
        time.sleep(0.1)
    assert workers_of(cluster) == []


def test_a_session_starts_a_local_cluster_and_leaves_nothing_behind(sums):
    skip_without_clusters()
    _, _, plain = run_alone(sums, name="plain")

    status, output, document = run_alone(sums, "--crucible-executor=ray")

    assert status == 0, output
    assert without_times(document) == without_times(plain)


def run_alone(suite: Any, *arguments: str, name: str = "run") -> tuple[int, str, dict[str, Any]]:
    """Do the same on a machine of its own, whose processes have ended afterwards."""
    with start_machines(1, environment=python_path(ROOT)) as machines:
        results = run(machines, suite, *arguments, name=name)
        assert machines.machines[0].processes() == []
    return results


def test_a_fixture_that_a_worker_cannot_build_ends_the_session(cluster, sums):
    sums.test(
        """
        import pytest

        @pytest.fixture
        def db():
            if "ray::" in open("/proc/self/cmdline").read():
                raise ConnectionError("no route to the database")

        @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler, db):
            return await sampler.generate(sample.input)
        """,
        name="test_sums",
    )

    status, output, _ = run(cluster, sums, "--crucible-executor=auto")

    assert status == 4
    assert "the fixture 'db' cannot be built on " in output
    assert "ConnectionError: no route to the database" in output


def test_a_cluster_that_cannot_be_reached_is_refused_before_a_request(cluster, sums):
    status, output, _ = run(cluster, sums, "--crucible-executor=ray://10.77.0.1:9")

    assert status == 4
    assert "Ray at 10.77.0.1:9 cannot be reached" in output


def test_reports_of_workers_are_shown_with_their_nodes(cluster, sums):
    conftest = """
        from pytest_crucible.metrics.models import scorers

        IS_WORKER = "ray::" in open("/proc/self/cmdline").read()

        class Cutter:
            def report(self):
                return "entailment: 3 of 5 pairs were cut" if IS_WORKER else None

        def pytest_crucible_event(event):
            # The session has opened its own scorers by now.
            scorers._opened["cutter"] = Cutter()
            raise ValueError("no dashboard")
    """
    (sums.path / "conftest.py").write_text(textwrap.dedent(conftest))

    status, output, _ = run(cluster, sums, "--crucible-executor=auto?per_node=2")

    assert status == 0, output
    (node,) = read_store(sums, "run", "SELECT DISTINCT node FROM blocks")[0]
    assert output.count(f"{node}: entailment: 3 of 5 pairs were cut") == 1
    # A listener of the driver gets the experiment's start, and those of both workers a sample's, in one line.
    for event in ("experiment.start", "sample.start"):
        assert output.count(f"raised ValueError: no dashboard on the event {event}: it receives no more events") == 1


def test_a_stored_run_is_the_baseline_of_workers(cluster, sums):
    """Each session has a copy of the store with that run."""
    _, _, stored = run(cluster, sums, name="first")
    compare = f"run:{stored['run']['id']}"
    for name in ("plain", "run"):
        shutil.copy(sums.path / "first.db", sums.path / f"{name}.db")
    plain_status, _, plain = run(cluster, sums, name="plain", compare=compare)

    status, output, document = run(cluster, sums, "--crucible-executor=auto", compare=compare)

    assert status == plain_status, output
    assert without_times(document) == without_times(plain)


def test_a_run_on_workers_stops_early_as_a_plain_one_does(cluster, sums):
    _, _, plain = run(cluster, sums, "--crucible-stop", name="plain")

    status, output, document = run(cluster, sums, "--crucible-stop", "--crucible-executor=auto")

    assert status == 0, output
    states = [[verdict["state"] for verdict in each["experiments"][0]["verdicts"]] for each in (document, plain)]
    assert states[0] == states[1]


def test_a_deadline_ends_the_requests_of_workers_and_resume_continues(cluster, sums):
    sums.test(
        TEST.replace("return await", "await asyncio.sleep(3)\n        return await").replace(
            "import pytest", "import asyncio, pytest"
        )
    )

    status, output, _ = run(cluster, sums, "--crucible-executor=auto?concurrency=16", "--crucible-deadline=15s")
    (stored,) = read_store(sums, "run", "SELECT COUNT(*) FROM replies WHERE text IS NOT NULL OR text_id IS NOT NULL")[0]

    assert "INTERNALERROR" not in output
    assert 0 < stored < 2 * SAMPLES, output
    status, output, _ = run(cluster, sums, "--crucible-executor=auto?concurrency=64", "--crucible-resume")
    assert status == 0, output


def test_a_worker_that_is_killed_costs_no_reply(cluster, sums):
    """Its blocks are dealt again, and every unit is stored once."""
    slow = """
        import asyncio, pytest

        @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler):
            await asyncio.sleep(1)
            return await sampler.generate(sample.input)
    """
    sums.test(slow, name="test_sums")
    killer = Thread(target=kill_a_worker, args=(cluster, sums))
    killer.start()

    status, output, document = run(cluster, sums, "--crucible-executor=auto?per_node=2&concurrency=16")
    killer.join()

    assert status == 0, output
    assert document["experiments"][0]["sections"]["nodes"]["nodes"][0]["dealt_again"] >= 1
    assert read_store(sums, "run", "SELECT COUNT(*), COUNT(DISTINCT arm || '-' || position) FROM replies") == [
        (300, 300)
    ]
    assert read_store(sums, "run", "SELECT COUNT(*) FROM lost") == [(0,)]


def kill_a_worker(cluster: Cluster, suite: Any) -> None:
    """Kill a worker when the first block is stored."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        time.sleep(0.2)
        with contextlib.suppress(sqlite3.OperationalError):
            if read_store(suite, "run", "SELECT COUNT(*) FROM blocks") > [(0,)]:
                os.kill(workers_of(cluster)[0], signal.SIGKILL)
                return
