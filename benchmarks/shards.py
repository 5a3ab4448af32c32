"""Eight files of shards, merged and decided by `crucible merge` in a process of its own: wall time, CPU time and most memory.

Two arms and two metrics, without groups: a million observations, and with `--large` four million, the most that are in memory
together, and eight million. Beside it, in the same run, what SQLite takes to copy the same rows from attached files, without seals
and verdicts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.million import ARMS, METRICS, plan
from benchmarks.suite import ROOT
from pytest_crucible.records import Sample
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.provenance import environment_facts
from pytest_crucible.store.runs import RunStore

SHARDS, LIMIT_S, LIMIT_MIB = 8, 30.0, 300.0
TABLES = ("replies", "observations")


def figures(observations: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        samples = observations // (len(ARMS) * len(METRICS))
        # A process of its own: Linux counts the memory of the parent as that of the process that merges.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writing:
            files = writing.submit(write_shards, place, samples).result()
        wall_s, cpu_s, peak_mib = merge(place, files)
        copied_s = copy_by_sqlite(place, files)
    name = f"{SHARDS} shards, {observations:,} observations"
    yield Figure(name=f"{name}: merged and decided", measured=wall_s, unit="s", limit=LIMIT_S)
    yield Figure(name="- CPU time of that", measured=cpu_s, unit="s")
    yield Figure(name="- most memory", measured=peak_mib, unit="MiB", limit=LIMIT_MIB)
    yield Figure(name="- SQLite's own copy of replies and observations", measured=copied_s, unit="s")
    yield Figure(name="- wall time, in times that of SQLite's copy", measured=wall_s / copied_s, unit="x")


def write_shards(place: Path, samples: int) -> list[str]:
    """Write the files as sessions would: one with the dataset and its copies, and by SQL the replies and scores of each."""
    first = write_dataset(place / "shard.db", samples)
    names = [f"crucible-shard-{number}-of-{SHARDS}.db" for number in range(1, SHARDS + 1)]
    for number, name in enumerate(names):
        shutil.copy(first, place / name)
        with contextlib.closing(sqlite3.connect(place / name)) as connection, connection:
            own = {"run": f"shard{number}", "shard": f"{number + 1}/{SHARDS}"}
            connection.execute(
                "UPDATE runs SET id = :run, manifest = json_set(manifest, '$.settings.shard', :shard)", own
            )
            own["selected"] = len(range(number, samples, SHARDS))
            connection.execute("UPDATE experiments SET run = :run, plan = json_set(plan, '$.selected', :selected)", own)
            for k in range(len(ARMS)):
                values = {"arm": k + 1, "k": k, "number": number, "shards": SHARDS, "samples": samples}
                connection.execute(_REPLIES, values)
                for metric, value, is_bool in (("right", "(position * 7 + :k) % 10 < 7 + :k", 1), ("score", _SCORE, 0)):
                    connection.execute(
                        _OBSERVATIONS.format(value=value), values | {"metric": metric, "is_bool": is_bool}
                    )
    return names


def write_dataset(path: Path, samples: int) -> Path:
    """Write a store with a run that has no replies."""
    options = {"shard": "", "alpha": DEFAULT_ALPHA, "seed": 0, "strict": False, "undecided": "warn", "memory": "off"}
    with contextlib.closing(RunStore(str(path))) as store:
        store.begin_run(
            "shard",
            started="2026-01-01T00:00:00+00:00",
            seed=0,
            alpha=DEFAULT_ALPHA,
            correction="holm",
            environment=environment_facts(),
            manifest={"command": [], "settings": options},
        )
        dataset = [Sample(id=f"sample-{k}", input=f"Is {k} a number?", expected="yes") for k in range(samples)]
        key = store.add_experiment("shard", plan(samples), dataset)
        assert [store.add_arm(key, k, name, name) for k, name in enumerate(ARMS)] == [1, 2]
        store.finish_experiment(key)
        store.end_run("shard", finished="2026-01-01T01:00:00+00:00", status="finished")
        store.set_exit_status("shard", 0)
    return path


_REPLIES = """
    WITH RECURSIVE own (position) AS (SELECT :number UNION ALL SELECT position + :shards FROM own
        WHERE position + :shards < :samples)
    INSERT INTO replies (arm, position, epoch, text, latency_s, finish, skipped, started)
    SELECT :arm, position, 0, CASE WHEN (position * 7 + :k) % 10 < 7 + :k THEN 'yes' ELSE 'no' END, 0.1, 'stop', 0, 0.0 FROM own
"""
_SCORE = "((position * 37 + :k * 11) % 100) / 100.0"
_OBSERVATIONS = """
    INSERT INTO observations (arm, position, epoch, metric, value, is_bool)
    SELECT arm, position, 0, :metric, {value}, :is_bool FROM replies WHERE arm = :arm
"""


def merge(place: Path, files: list[str]) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU and MiB of a process that merges the files."""
    (place / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest_crucible", "merge", *files, "--store", "merged.db"]
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    # A verdict may be missed.
    assert os.waitstatus_to_exitcode(status) in (0, 1), output.decode()
    assert b"passed" in output, output.decode()
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def copy_by_sqlite(place: Path, files: list[str]) -> float:
    """Return the seconds that SQLite takes for the rows of all files."""
    with contextlib.closing(RunStore(str(place / "copied.db"))):
        pass
    started = time.perf_counter()
    with contextlib.closing(sqlite3.connect(place / "copied.db", isolation_level=None)) as connection:
        for file in files:
            connection.execute(f"ATTACH '{place / file}' AS shard")
            connection.execute("BEGIN")
            for table in TABLES:
                # Arms of their own: the tables refer to none.
                connection.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM shard.{table}")
            connection.execute("COMMIT")
            connection.execute("DETACH shard")
    return time.perf_counter() - started


if __name__ == "__main__":
    sizes = [1_000_000, *([4_000_000, 8_000_000] if "--large" in sys.argv else [])]
    raise SystemExit(show(figure for size in sizes for figure in figures(size)))
