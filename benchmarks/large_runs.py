"""Runs that are larger than memory: verdicts on 10^7 and 10^8 stored observations, each in a process of its own.

Stores are written by direct inserts and cached in the folder for temporary files: the run store's writer is measured by
`benchmarks.million`. Two arms; in the database two metrics, one of yes or no and one between 0 and 1, in Parquet parts four. Beside
these, in the same run, DuckDB counts the same files by metric, arm and score.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import million
from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.suite import ROOT
from pytest_crucible.records import Contrast, MetricFacts, Plan
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.part_writer import PartWriter
from pytest_crucible.store.parts import ResultsFolder, manifest_rows
from pytest_crucible.store.runs import RunStore

CACHE = Path(tempfile.gettempdir()) / "crucible-large-runs"
PART_METRICS = (
    *(MetricFacts(name=name, kind="binary", low=0.0, high=1.0) for name in ("right", "cited", "brief")),
    MetricFacts(name="score", kind="bounded", low=0.0, high=1.0),
)
PART_SAMPLES = 2**17
OBSERVATIONS_A_SAMPLE = len(million.ARMS) * len(million.METRICS)


def figures() -> list[Figure]:
    return [
        *_figures("SQLite, 10^7 observations", sqlite_store(10_000_000), limit_s=30),
        *_figures("Parquet, 10^8 observations", parquet_store(100_000_000), limit_s=30, limit_mib=512, has_peer=True),
        *_figures("SQLite, 8 x 10^6 observations", sqlite_store(8_000_000), limit_mib=300),
    ]


def _figures(
    name: str, path: Path, *, limit_s: float | None = None, limit_mib: float | None = None, has_peer: bool = False
) -> list[Figure]:
    measured = _measure_apart("--measure", path)
    figures = [
        Figure(name=f"{name}: verdicts", measured=measured["wall_s"], unit="s", limit=limit_s),
        Figure(name="- of that: processor", measured=measured["cpu_s"], unit="s"),
        Figure(name="- most memory of the process", measured=measured["peak_mib"], unit="MiB", limit=limit_mib),
    ]
    if has_peer:
        peer = _measure_apart("--count", path)
        times = measured["wall_s"] / peer["wall_s"], measured["cpu_s"] / peer["cpu_s"]
        figures += [
            Figure(name="- beside DuckDB's table of the same files", measured=times[0], unit="x", limit=10),
            Figure(name="- - by processor time", measured=times[1], unit="x"),
            Figure(name="- DuckDB's table", measured=peer["wall_s"], unit="s", digits=2),
        ]
    return figures


def _measure_apart(what: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.large_runs", what, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def count(path: Path) -> dict[str, float]:
    """Return the seconds that DuckDB takes for the table of metrics, arms and scores, in this process."""
    import duckdb

    duckdb.sql("SET memory_limit = '512MB'")
    started, cpu = time.perf_counter(), time.process_time()
    files = f"read_parquet('{path.with_suffix('')}/million/*observations-*.parquet')"
    rows = duckdb.sql(f"SELECT metric, arm, value >= 0.5, COUNT(*) FROM {files} GROUP BY ALL").fetchall()
    assert len(rows) == 2 * len(PART_METRICS) * len(million.ARMS)
    return {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}


def measure(path: Path) -> dict[str, float]:
    """Return seconds and MiB of this process, which must be a fresh one."""
    started, cpu = time.perf_counter(), time.process_time()
    store = RunStore(str(path))
    run = load_run(store, "million")
    assert all(each.p_value is not None and each.lost == 0 for each in run.experiments[0].comparisons)
    peak = peak_mib()
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


def parquet_store(observations: int) -> Path:
    """Return a store whose replies and scores are in Parquet parts: two arms, three metrics of yes or no and one score."""
    path = CACHE / f"parts-{observations}.db"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        samples = observations // (len(million.ARMS) * len(PART_METRICS))
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        _fill_parts(partial, ResultsFolder(str(path.with_suffix(""))), samples)
        partial.rename(path)
    return path


def _fill_parts(path: Path, results: ResultsFolder, samples: int) -> None:
    plan = replace(
        million.plan(samples),
        metrics=PART_METRICS,
        contrasts=tuple(Contrast(metric=metric.name, baseline="v1") for metric in PART_METRICS),
    )
    store, key, arms = _begin(path, plan)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    _insert_samples(connection, samples)
    connection.commit()
    connection.close()
    for start in range(0, samples, PART_SAMPLES):
        positions = np.arange(start, min(start + PART_SAMPLES, samples))
        parts = PartWriter(results, "million").write([_replies(positions, arms), _observations(positions, arms)]).parts
        store.insert(PARTS, manifest_rows(parts))
    _finish(store, key)


def _replies(positions: np.ndarray, arms: Sequence[int]) -> pa.RecordBatch:
    n = positions.size * len(arms)
    return _batch(
        "replies",
        {
            "arm": np.tile(arms, positions.size),
            "position": np.repeat(positions, len(arms)),
            "epoch": np.zeros(n, np.int64),
            "latency_s": np.full(n, 0.1),
            "skipped": np.zeros(n, bool),
        },
    )


def _observations(positions: np.ndarray, arms: Sequence[int]) -> pa.RecordBatch:
    rng = np.random.default_rng(int(positions[0]))
    shape = positions.size, len(arms), len(PART_METRICS)
    values = rng.random(shape)
    values[..., :-1] = values[..., :-1] < 0.7
    n, names = values.size, pa.array([metric.name for metric in PART_METRICS])
    return _batch(
        "observations",
        {
            "arm": np.tile(np.repeat(arms, shape[2]), shape[0]),
            "position": np.repeat(positions, shape[1] * shape[2]),
            "epoch": np.zeros(n, np.int64),
            "metric": names.take(pa.array(np.tile(np.arange(shape[2]), shape[0] * shape[1]))),
            "value": values.ravel(),
            "is_bool": np.tile(np.arange(shape[2]) < shape[2] - 1, shape[0] * shape[1]),
            "label": pa.nulls(n, pa.string()),
            "reason": pa.nulls(n, pa.string()),
        },
    )


def _batch(table: str, columns: dict[str, Any]) -> pa.RecordBatch:
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    metadata = {b"table": table.encode(), b"overwrite": b"0"}
    return pa.RecordBatch.from_arrays(arrays, names=list(columns)).replace_schema_metadata(metadata)


def _fill(path: Path, samples: int) -> None:
    store, key, arms = _begin(path, million.plan(samples))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    _insert_samples(connection, samples)
    _insert_rows(connection, samples, arms)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    _finish(store, key)


def _begin(path: Path, plan: Plan) -> tuple[RunStore, int, list[int]]:
    store = RunStore(str(path))
    facts = {"git": {}, "environment": {"rules": RULES_VERSION}}
    store.begin_run("million", started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", **facts)
    key = store.add_experiment("million", plan, ())
    return store, key, [store.add_arm(key, number, name, name) for number, name in enumerate(million.ARMS)]


def _finish(store: RunStore, key: int) -> None:
    store.finish_experiment(key)
    store.end_run("million", finished="2026-01-01T01:00:00+00:00", status="finished")
    store.close()


def _numbers(samples: int) -> str:
    return f"WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < {samples - 1})"


def _insert_samples(connection: sqlite3.Connection, samples: int) -> None:
    connection.execute(
        f"{_numbers(samples)} INSERT INTO samples (dataset, position, sample_id, input, expected)"
        " SELECT 'million', n, 'sample-' || n, '\"Is ' || n || ' a number?\"', '\"yes\"' FROM k"
    )


def _insert_rows(connection: sqlite3.Connection, samples: int, arms: Sequence[int]) -> None:
    """Insert replies and scores. The database makes the rows: Python would take ten times as long."""
    numbers = _numbers(samples)
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
    if len(sys.argv) > 2:
        print(json.dumps({"--measure": measure, "--count": count}[sys.argv[1]](Path(sys.argv[2]))))
        raise SystemExit
    raise SystemExit(show(figures()))
