"""Runs that are larger than memory: verdicts on 10^7 stored observations, each in a process of its own.

Stores are written by direct inserts and cached in the folder for temporary files: the run store's writer is measured by
`benchmarks.million`. Two arms and two metrics, one of yes or no and one between 0 and 1, and a reply for each pair of scores.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import million
from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.runs import RunStore

CACHE = Path(tempfile.gettempdir()) / "crucible-large-runs"
OBSERVATIONS_A_SAMPLE = len(million.ARMS) * len(million.METRICS)


def figures() -> list[Figure]:
    return [
        *_figures("SQLite, 10^7 observations", sqlite_store(10_000_000), limit_s=30),
        *_figures("SQLite, 8 x 10^6 observations", sqlite_store(8_000_000), limit_mib=300),
    ]


def _figures(name: str, path: Path, *, limit_s: float | None = None, limit_mib: float | None = None) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.large_runs", "--measure", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return [
        Figure(name=f"{name}: verdicts", measured=measured["wall_s"], unit="s", limit=limit_s),
        Figure(name="- of that: processor", measured=measured["cpu_s"], unit="s"),
        Figure(name="- most memory of the process", measured=measured["peak_mib"], unit="MiB", limit=limit_mib),
    ]


def measure(path: Path) -> dict[str, float]:
    """Return seconds and MiB of this process, which must be a fresh one."""
    started, cpu = time.perf_counter(), time.process_time()
    store = RunStore(str(path))
    run = load_run(store, "million")
    assert [verdict.state for verdict in run.verdicts] == ["met", "met"], run.verdicts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu, "peak_mib": peak}


def sqlite_store(observations: int) -> Path:
    """Return a store with a run of so many observations, written now if it is not cached."""
    path = CACHE / f"observations-{observations}.db"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        _fill(partial, observations // OBSERVATIONS_A_SAMPLE)
        partial.rename(path)
    return path


def _fill(path: Path, samples: int) -> None:
    store = RunStore(str(path))
    facts = {"git": {}, "environment": {"rules": RULES_VERSION}}
    store.begin_run("million", started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", **facts)
    key = store.add_experiment("million", million.plan(samples), ())
    arms = [store.add_arm(key, number, name, name) for number, name in enumerate(million.ARMS)]
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    _insert_rows(connection, samples, arms)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    store = RunStore(str(path))
    store.finish_experiment(key)
    store.end_run("million", finished="2026-01-01T01:00:00+00:00", status="finished")
    store.close()


def _insert_rows(connection: sqlite3.Connection, samples: int, arms: Sequence[int]) -> None:
    """Insert samples, replies and scores. The database makes the rows: Python would take ten times as long."""
    numbers = f"WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < {samples - 1})"
    connection.execute(
        f"{numbers} INSERT INTO samples (dataset, position, sample_id, input, expected)"
        " SELECT 'million', n, 'sample-' || n, '\"Is ' || n || ' a number?\"', '\"yes\"' FROM k"
    )
    for number, arm in enumerate(arms):
        right = f"(n * 7 + {number}) % 10 < 7 + {number}"
        connection.execute(
            f"{numbers} INSERT INTO replies (arm, position, epoch, text, latency_s, skipped)"
            f" SELECT {arm}, n, 0, CASE WHEN {right} THEN 'yes' ELSE 'no' END, 0.1, 0 FROM k"
        )
        connection.execute(
            f"{numbers}, m(name) AS (VALUES ('right'), ('score'))"
            " INSERT INTO observations (arm, position, epoch, metric, value, is_bool)"
            f" SELECT {arm}, n, 0, name, CASE name WHEN 'right' THEN {right} ELSE"
            f" ((n * 7919 + {number} * 104729) % 99991) / 99991.0 END, name = 'right' FROM k JOIN m"
        )


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure(Path(sys.argv[-1]))))
        raise SystemExit
    raise SystemExit(show(figures()))
