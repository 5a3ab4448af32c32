"""What a reply costs on its way from a worker to the store: the constants of `crucible plan --samples`.

Each is printed beside the one that is shipped in `features/scale/capacity.toml`, and is over from twice of it. A worker's time is
that of a session with a model that answers at once, with the writing of its store. HTTP adds 0.15 to 0.4 ms of CPU a request
(`benchmarks.http_clients`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.million import plan
from benchmarks.suite import COMPARED, Suite
from pytest_crucible.features.scale.capacity import Costs, measured_costs
from pytest_crucible.records import Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.records.outcomes import ModelCall
from pytest_crucible.store.part_writer import PartWriter
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.row_batch import OutcomeRows, RowBatch
from pytest_crucible.store.row_batches import decode_rows, encode_rows
from pytest_crucible.store.runs import RunStore

REPLIES, BLOCK, TOKENS = 32_000, 128, 200
TEXT = "word " * TOKENS
FEW, MANY = 1_000, 9_000
"""Samples of two sessions, whose difference is the cost of samples alone."""


def figures() -> list[Figure]:
    costs = measured_costs()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Two replies a sample, one metric.
        worker_s = (_session_s(folder / "many", MANY) - _session_s(folder / "few", FEW)) / (MANY - FEW) / 2
        blocks = [encode_rows(block) for block in _blocks(text="yes")]
        small, with_text = _wire_bytes(blocks), _wire_bytes([encode_rows(block) for block in _blocks(text=TEXT)])
        driver_s, sqlite_bytes = _store_blocks(folder, blocks)
        parquet_bytes, per_second = _write_parts(folder, blocks)
    return [
        _figure("a worker's CPU", worker_s * 1e6, costs.worker_s * 1e6, "us"),
        _figure("the driver's, stored in SQLite", driver_s * 1e6, costs.driver_s * 1e6, "us"),
        _figure("on the wire, of a row", small / 2, costs.wire_bytes, "B"),
        _figure("on the wire, of a token", (with_text - small) / TOKENS, costs.bytes_per_token, "B"),
        _figure("in SQLite, of a row", sqlite_bytes / 2, costs.row_bytes["sqlite"], "B"),
        _figure("in Parquet, of a row", parquet_bytes / 2, costs.row_bytes["parquet"], "B"),
        *_rates(costs, sqlite=2 / driver_s, parquet=per_second),
    ]


def _figure(name: str, measured: float, shipped: float, unit: str) -> Figure:
    return Figure(name=f"a reply: {name}", measured=measured, unit=unit, limit=2 * shipped)


def _rates(costs: Costs, **measured: float) -> list[Figure]:
    """Return the times of a million rows: a limit is a most."""
    return [
        Figure(
            name=f"a million rows into {store} ({rate:,.0f}/s)",
            measured=1e6 / rate,
            unit="s",
            limit=2e6 / costs.store_rows_per_second[store],
            digits=2,
        )
        for store, rate in measured.items()
    ]


def _session_s(folder: Path, samples: int) -> float:
    return Suite(directory=folder, samples=samples, marks=COMPARED, is_cached=True).write().run(*_ARMS)["cpu_s"]


_ARMS = ("--crucible-adapter=v2", "--compare=v1", "--crucible-cache=off")


def _blocks(*, text: str) -> list[Any]:
    """Return the rows of blocks, as a worker sends them: a reply, its call and one score a unit."""
    rows = OutcomeRows(str, str, str, stores_texts=True)
    return [_rows_of_block(rows, first, text) for first in range(0, REPLIES, BLOCK)]


def _rows_of_block(rows: OutcomeRows, first: int, text: str) -> Any:
    batch = RowBatch()
    for position in range(first, first + BLOCK):
        unit, sample = Unit(position, 0, 0, 0), Sample(id=f"s{position}", input=f"Is {position} a number?")
        # Texts differ, as those of models do.
        reply = Reply(text=f"{text} {position}", input_tokens=12, output_tokens=1, latency_s=0.05, model="m")
        call = ModelCall(text=sample.input, is_json=False, request=1, parameters=None, system="", reply=reply)
        outcome = Outcome(unit, reply=reply, calls=[call], sample=sample, started=1.0)
        rows.add(batch, outcome, 1, [Observation(unit, "right", position % 3 == 0)], ())
    rows.add_late_rows(batch)
    return batch.tables()


def _wire_bytes(blocks: Sequence[Any]) -> float:
    return sum(batch.nbytes for block in blocks for batch in block) / REPLIES


def _store_blocks(folder: Path, blocks: Sequence[Any]) -> tuple[float, float]:
    """Return the seconds and the bytes of a reply that the driver decodes and stores."""
    store = RunStore(str(folder / "driver.db"))
    store.begin_run("capacity", started="", seed=0, alpha=0.05, correction="holm", git={}, environment={})
    store.add_arm(store.add_experiment("capacity", plan(), [Sample(id="s", input="")]), 0, "v2", "v2")
    writer, begun = store.writer(), time.process_time()
    for block in blocks:
        writer.add_tables(decode_rows(block))
        while writer.behind():
            time.sleep(0.01)
    writer.close()
    seconds = time.process_time() - begun
    store.close()
    return seconds / REPLIES, (folder / "driver.db").stat().st_size / REPLIES


def _write_parts(folder: Path, blocks: Sequence[Any]) -> tuple[float, float]:
    """Return the bytes of a reply in parts, and how many rows are written in a second of a core."""
    begun = time.process_time()
    writer = PartWriter(ResultsFolder(str(folder / "parts")), "capacity")
    parts = writer.write([each for block in blocks for each in block]).parts
    seconds = time.process_time() - begun
    return sum(part.bytes for part in parts) / REPLIES, sum(part.row_count for part in parts) / seconds


if __name__ == "__main__":
    raise SystemExit(show(figures()))
