"""10^8 observations in Parquet parts: written by two processes, scanned in the order of samples, and counted by DuckDB.

`python -m benchmarks.results [ROWS]`. Rows arrive in batches of 2^20, as a driver has them from its workers: blocks of 64 samples,
in random order, two arms, four metrics of yes or no. The scan counts pairs of arms (both right, one of them, none) by metric.
Last come sessions on Ray (`benchmarks.delivered`).
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import delivered
from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.suite import ROOT
from pytest_crucible.store import schema
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.part_writer import PartWriter
from pytest_crucible.store.parts import ResultsFolder, manifest_rows
from pytest_crucible.store.runs import RunStore

ROWS = 100_000_000
RUN, METRICS, ARMS, BLOCK = "results", ("a", "b", "c", "d"), 2, 64
PER_SAMPLE = ARMS * len(METRICS)
BATCH = 1 << 20


def figures(rows: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        seconds, used = write(folder, rows)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
        scan, peer, shown = (_apart(what, folder) for what in ("scan", "duckdb", "query"))
    assert scan["pairs"] == rows / ARMS
    return [
        Figure(
            name=f"{rows:,} observations written: a million",
            measured=seconds / rows * 1e6,
            unit="s",
            limit=1.0,
            digits=2,
        ),
        Figure(name="- - of that: on cores, of both processes", measured=used / rows * 1e6, unit="s", digits=2),
        Figure(name="- bytes a row", measured=size / rows, unit="B", limit=11.5),
        Figure(name="- scanned by sample, pairs counted", measured=scan["wall_s"], unit="s", limit=30),
        Figure(name="- - of that: this process on a core", measured=scan["cpu_s"], unit="s"),
        Figure(name="- - most memory", measured=scan["peak_mib"], unit="MiB", limit=512),
        Figure(
            name="- - beside DuckDB's table of both arms", measured=scan["wall_s"] / peer["wall_s"], unit="x", limit=10
        ),
        Figure(name="- DuckDB's table of both arms", measured=peer["wall_s"], unit="s", digits=2),
        Figure(name="- counts of one metric through the run store", measured=shown["wall_s"], unit="s", digits=2),
        Figure(name="- - most memory", measured=shown["peak_mib"], unit="MiB", limit=512),
    ]


def _apart(what: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.results", "--measure", what, folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


# -- writing ----------------------------------------------------------------------------------------------------------


def write(folder: str, rows: int) -> tuple[float, float]:
    """Write the rows in two processes; return the seconds of the slower one without the making of its rows, and those on cores."""
    open_store(folder).close()
    samples = rows // PER_SAMPLE
    halves = [(folder, 0, samples // 2), (folder, samples // 2, samples)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        seconds, used = zip(*pool.starmap(_write_half, halves), strict=True)
    return max(seconds), sum(used)


def open_store(folder: str) -> RunStore:
    store = RunStore(f"{folder}/store.db")
    if store.scalar("SELECT COUNT(*) FROM runs") == 0:
        store.begin_run(RUN, started="2026", seed=0, alpha=0.05, correction="holm", environment={})
        store.insert(schema.experiments, [{"run": RUN, "nodeid": "t", "plan": {}, "finished": True}])
        for number in range(ARMS):
            store.add_arm(1, number, f"v{number}", "f")
    return store


def _write_half(folder: str, first: int, last: int) -> tuple[float, float]:
    store, results, spent, used = open_store(folder), ResultsFolder(f"{folder}/parts"), 0.0, 0.0
    for batch in batches(first, last):
        began, on_core = time.perf_counter(), time.process_time()
        parts = PartWriter(results, RUN).write([batch]).parts
        store.insert(PARTS, manifest_rows(parts))
        spent, used = spent + time.perf_counter() - began, used + time.process_time() - on_core
    store.close()
    return spent, used


def batches(first: int, last: int, rows: int = BATCH) -> Iterator[Any]:
    """Yield observations of samples in random blocks, as `encode_rows` has them, so many rows at a time."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(first)
    starts = random.permutation(np.arange(first, last, BLOCK))
    metadata = {b"table": b"observations", b"overwrite": b"0"}
    at_a_time = rows // PER_SAMPLE // BLOCK
    for at in range(0, len(starts), at_a_time):
        block = (starts[at : at + at_a_time, None] + np.arange(BLOCK)).ravel()
        samples = block[block < last]
        n = len(samples)
        columns = {
            "arm": np.tile(np.repeat(np.arange(1, ARMS + 1), len(METRICS)), n),
            "position": np.repeat(samples, PER_SAMPLE),
            "epoch": np.zeros(n * PER_SAMPLE, np.int64),
            "metric": pa.array(METRICS).take(np.tile(np.arange(len(METRICS)), n * ARMS)),
            "value": random.integers(0, 2, n * PER_SAMPLE).astype(float),
            "is_bool": np.ones(n * PER_SAMPLE, bool),
            "label": pa.nulls(n * PER_SAMPLE, pa.string()),
            "reason": pa.nulls(n * PER_SAMPLE, pa.string()),
        }
        arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns)).replace_schema_metadata(metadata)


# -- reading, each in a process of its own ----------------------------------------------------------------------------


def measure(what: str, folder: str) -> dict[str, float]:
    store = open_store(folder)
    began, used = time.perf_counter(), time.process_time()
    found = {"scan": _count_pairs, "duckdb": _count_by_duckdb, "query": _count_by_query}[what](store, folder)
    seconds = time.perf_counter() - began
    peak = peak_mib()
    return {"wall_s": seconds, "cpu_s": time.process_time() - used, "peak_mib": peak, **found}


def _count_pairs(store: RunStore, folder: str) -> dict[str, float]:
    import numpy as np

    from pytest_crucible.store.scanned_rows import scan_rows

    pairs = 0
    for last, table in scan_rows(store, RUN, schema.observations, ["arm", "position", "metric", "value"]):
        position, arm = table["position"].to_numpy(), table["arm"].to_numpy() - 1
        metric = table["metric"].combine_chunks().indices.to_numpy()
        first = int(position.min())
        right = np.full((last - first + 1, len(METRICS), ARMS), np.nan)
        right[position - first, metric, arm] = table["value"].to_numpy()
        kinds = right[..., 0] * 2 + right[..., 1]
        pairs += sum(int((kinds == kind).sum()) for kind in range(4))
    return {"pairs": pairs}


def _count_by_duckdb(store: RunStore, folder: str) -> dict[str, float]:
    import duckdb

    files = f"{folder}/parts/{RUN}/*observations-*.parquet"
    duckdb.sql("SET memory_limit = '512MB'")
    table = duckdb.sql(f"SELECT metric, arm, value, COUNT(*) FROM read_parquet('{files}') GROUP BY ALL").fetchall()
    return {"rows": sum(row[-1] for row in table)}


def _count_by_query(store: RunStore, folder: str) -> dict[str, float]:
    query = "SELECT value, COUNT(*) FROM observations WHERE arm = :arm AND metric = :metric GROUP BY value"
    return {"rows": sum(count for _, count in store.rows(query, arm=1, metric="a"))}


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure(*sys.argv[2:])))
        raise SystemExit
    raise SystemExit(show([*figures(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS), *delivered.figures()]))
