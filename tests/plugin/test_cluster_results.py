"""Workers of a Ray cluster write Parquet parts: the results are those of a plain session, whatever dies.

Ray runs in network namespaces of the tests' own.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from clusters import PYTHON, Cluster, python_path, skip_without_clusters, start_cluster

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).parents[2]
SAMPLES = 300
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest")
ARMS = ("--crucible-adapter=good", "--compare=fair")
RAY = ("--crucible-executor=auto?per_node=2&concurrency=16", "-o", "crucible_results=parts")
TEST = """
    import asyncio, pytest

    @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        await asyncio.sleep({seconds})
        return await sampler.generate(sample.input)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one machine."""
    skip_without_clusters()
    with start_cluster(1, environment=python_path(ROOT)) as cluster:
        yield cluster


@pytest.fixture
def sums(suite):
    """A suite of several blocks, with replies that are stored apart, failures, and samples that are lost."""
    suite.write_rows(
        "sums.jsonl", [{"id": f"s{k}", "input": f"{k} + 1", "expected": str(k + 1)} for k in range(SAMPLES)]
    )
    for name, step in (("good", 10), ("fair", 3)):
        texts = [str(k + 1) if k % step else f"no {k} " * 400 for k in range(SAMPLES)]
        suite.write_rows(
            f"answers/{name}.jsonl", [{"sample_id": f"s{k}", "text": text} for k, text in enumerate(texts)]
        )
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("good", "fair")})
    suite.test(TEST.format(seconds=0), name="test_sums")
    return suite


def run(cluster: Cluster, suite: Any, *arguments: str, name: str = "run") -> tuple[int, str]:
    """Run a session on the machine. Return exit status and output."""
    files = (f"--crucible-json={name}.json", f"--crucible-store={name}.db")
    result = cluster.run(cluster.machines[0], *OPTIONS, *ARMS, *files, *arguments, cwd=suite.path)
    return result.returncode, result.stdout + result.stderr


def command(cluster: Cluster, suite: Any, *arguments: str, name: str = "run") -> tuple[int, str]:
    """Run `crucible ...` on the machine."""
    process = cluster.popen(
        cluster.machines[0], "-m", "pytest_crucible", *arguments, f"--store={name}.db", cwd=suite.path
    )
    output = process.communicate(timeout=200)[0]
    return process.returncode, output


def without_times(suite: Any, name: str) -> dict[str, Any]:
    """Return a run's JSON without ids, times and nodes."""
    document = json.loads((suite.path / f"{name}.json").read_text())
    for experiment in document["experiments"]:
        experiment["sections"].pop("nodes", None)
    for key in ("id", "started", "finished", "root"):
        document["run"].pop(key)
    return document


def read_store(suite: Any, query: str, name: str = "run") -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{suite.path / name}.db?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def manifest_paths(suite: Any) -> set[str]:
    return {path for (path,) in read_store(suite, "SELECT path FROM parts")}


def files(suite: Any) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in (suite.path / "parts").glob("*/*")}


def units(suite: Any, table: str = "replies", run: str = "LIKE '%'") -> list[tuple[int, int]]:
    """Return the units of a table, of the parts that are entered and of the store."""
    import pyarrow.parquet as pq

    query = f"SELECT path FROM parts WHERE of_table = '{table}' AND run {run}"
    paths = [suite.path / "parts" / path for (path,) in read_store(suite, query)]
    rows = [row for path in paths for row in pq.read_table(path, columns=["arm", "position"]).to_pylist()]
    return [(row["arm"], row["position"]) for row in rows] + read_store(suite, f"SELECT arm, position FROM {table}")


def expect_each_unit_once(suite: Any) -> None:
    every = [(arm, position) for arm in (1, 2) for position in range(SAMPLES)]
    for table in ("replies", "observations"):
        assert sorted(units(suite, table)) == every


@pytest.fixture
def plain(cluster, sums):
    """A plain session of the suite."""
    assert run(cluster, sums, name="plain")[0] == 0


@pytest.mark.usefixtures("plain")
def test_a_run_in_parts_of_workers_is_that_of_a_plain_session(cluster, sums):
    status, output = run(cluster, sums, *RAY)

    assert status == 0, output
    assert without_times(sums, "run") == without_times(sums, "plain")
    expect_each_unit_once(sums)
    assert read_store(sums, "SELECT COUNT(*) FROM replies") == [(0,)]
    tables = {path.partition("/")[2].rpartition("-")[0] for path in manifest_paths(sums)}
    assert {"blocks_replies", "blocks_observations", "blocks_calls", "blocks_texts"} <= tables
    # One of each table and worker; and the driver has removed all others.
    assert len(manifest_paths(sums)) <= 2 * len(tables)
    assert files(sums) == manifest_paths(sums)
    for words in (("compare", "latest:good", "latest:fair", "--json"), ("report", "latest", "--output=again.csv")):
        assert command(cluster, sums, *words)[0] == command(cluster, sums, *words, name="plain")[0] == 0
    assert command(cluster, sums, "verify", "latest")[0] == 0


def test_a_part_that_was_changed_is_not_as_it_was_written(cluster, sums):
    assert run(cluster, sums, *RAY)[0] == 0
    path = next((sums.path / "parts").glob("*/blocks_observations-*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)

    status, output = command(cluster, sums, "verify", "latest")

    assert status == 1
    assert path.name in output
    assert "was changed after it was written" in output


KILLED = """
    import os, signal
    from pathlib import Path
    from pytest_crucible.store.parts import ResultsFolder

    put = ResultsFolder.put

    def put_and_die(self, path, content):
        if {place} in path and not Path("killed").exists():
            Path("killed").touch()
            {written}
            os.kill(os.getpid(), signal.SIGKILL)
        put(self, path, content)

    ResultsFolder.put = put_and_die
"""


@pytest.mark.parametrize(
    "written",
    ["Path(self.locate(path) + '.draft').write_bytes(content[: len(content) // 2])", "put(self, path, content)"],
    ids=["half", "whole"],
)
@pytest.mark.usefixtures("plain")
def test_a_worker_that_is_killed_while_it_writes_leaves_nothing_that_is_read(cluster, sums, written):
    sums.test(TEST.format(seconds=0.3), name="test_sums")
    sums.pytester.makeconftest(KILLED.format(place="'blocks_observations'", written=written))

    status, output = run(cluster, sums, *RAY)

    assert status == 0, output
    assert (sums.path / "killed").exists()
    expect_each_unit_once(sums)
    assert files(sums) == manifest_paths(sums)
    results = [without_times(sums, name)["experiments"][0]["arms"] for name in ("run", "plain")]
    assert results[0] == results[1]


DYING_DRIVER = """
    import os, signal
    from pathlib import Path
    from pytest_crucible.features.scale import results

    enter = results.enter_parts

    def enter_and_die(*arguments):
        if Path("entered").exists() and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        enter(*arguments)
        Path("entered").touch()

    results.enter_parts = enter_and_die
"""


def test_a_driver_that_is_killed_before_it_enters_parts_is_resumed_from_its_manifest(cluster, sums):
    sums.test(TEST.format(seconds=0.5), name="test_sums")
    sums.pytester.makeconftest(DYING_DRIVER)
    assert run(cluster, sums, *RAY)[0] < 0
    [(dead,)] = read_store(sums, "SELECT id FROM runs")
    stored = units(sums)
    unentered = files(sums) - manifest_paths(sums)
    assert stored
    assert any(path.partition("/")[2].startswith("blocks_") for path in unentered)

    status, output = run(cluster, sums, *RAY, "--crucible-resume")

    assert status == 0, output
    arms = [
        arm
        for (arm,) in read_store(
            sums, f"SELECT arms.id FROM arms JOIN experiments ON experiments.id = experiment WHERE run <> '{dead}'"
        )
    ]
    every = [(arm, position) for arm in arms for position in range(SAMPLES)]
    assert sorted(units(sums, run=f"<> '{dead}'")) == every
    reused = read_store(sums, "SELECT SUM(reused_answers) FROM arms WHERE reused_from IS NOT NULL")
    assert reused == [(len(stored),)]
    # Its workers may have written more since.
    for path in files(sums) - manifest_paths(sums):
        os.utime(sums.path / "parts" / path, (1, 1))
    assert command(cluster, sums, "gc", "--delete")[0] == 0
    assert files(sums) == manifest_paths(sums)


def test_rows_that_a_worker_cannot_write_go_to_the_run_store(cluster, sums):
    """The place is gone when the first block is written."""
    sums.test(
        """
        import pytest
        from pathlib import Path

        @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler):
            if Path("parts").is_dir():
                Path("parts").rename("hidden")
                Path("parts").write_text("a file")
            return await sampler.generate(sample.input)
        """,
        name="test_sums",
    )

    status, output = run(cluster, sums, "--crucible-executor=auto", "-o", "crucible_results=parts", "--crucible-fresh")

    assert status == 0, output
    assert "replies and scores stay in the run store: " in output
    assert f"results in '{sums.path}/parts' cannot be written" in output
    assert len(read_store(sums, "SELECT arm, position FROM replies")) == SAMPLES


def test_a_node_without_the_place_is_refused_before_a_request(cluster, sums):
    """The node has another directory there: nothing is mounted."""
    (sums.path / "parts").mkdir()
    node = cluster.machines[0]
    start = f"mount -t tmpfs none {sums.path}/parts && exec {PYTHON} -m pytest "
    words = " ".join((*OPTIONS, *ARMS, "--crucible-store=run.db", *(f"'{word}'" for word in RAY)))
    # The driver alone sees another file system.
    process = cluster.popen(
        node,
        "-c",
        "import os, sys; os.execvp('unshare', ['unshare', '-m', 'bash', '-c', sys.argv[1]])",
        start + words,
        cwd=sums.path,
    )
    output = process.communicate(timeout=200)[0]

    assert process.returncode == 4, output
    assert f"does not have the files of crucible_results = '{sums.path}/parts': mount it there" in output


def test_a_session_that_looks_keeps_rows_in_the_driver_until_its_end(cluster, sums):
    status, output = run(cluster, sums, *RAY, "--crucible-stop")

    assert status == 0, output
    assert {path.partition("/")[2].startswith("blocks_") for path in manifest_paths(sums)} == {False}
    assert files(sums) == manifest_paths(sums)
