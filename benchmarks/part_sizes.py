"""Parts of one block each, and parts that a worker joins: writing and reading a million observations.

`python -m benchmarks.part_sizes [ROWS]`. Blocks have 64 samples, two arms, four metrics; a worker that is slow writes every four
blocks, one that is fast every 256.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.results import BLOCK, PER_SAMPLE, RUN, batches, open_store
from pytest_crucible.store import schema
from pytest_crucible.store.part_writer import PartWriter, enter_parts
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.scanned_rows import scan_rows

ROWS = 1_000_000
ROWS_OF_BLOCK = BLOCK * PER_SAMPLE


def figures(rows: int = ROWS) -> Iterator[Figure]:
    """Yield the seconds of writing, counting and scanning, and the files."""
    for name, blocks, is_joined in (
        ("a part of each block", 1, False),
        ("four blocks at a time, joined", 4, True),
        ("256 blocks at a time, joined", 256, True),
    ):
        with tempfile.TemporaryDirectory() as folder:
            written, used = _write(folder, rows, blocks, is_joined=is_joined)
            counted, scanned = _read(folder)
            files = len(list(Path(folder).rglob("*.parquet")))
        yield Figure(name=f"{rows:,} observations, {name}: written", measured=written, unit="s")
        yield Figure(name="- files that are read", measured=used, unit="", digits=0)
        yield Figure(name="- files that were written", measured=files, unit="", digits=0)
        yield Figure(name="- one metric counted", measured=counted, unit="s", digits=2)
        yield Figure(name="- scanned by sample", measured=scanned, unit="s", digits=2)


def _write(folder: str, rows: int, blocks: int, *, is_joined: bool) -> tuple[float, float]:
    store, results, seconds = open_store(folder), ResultsFolder(f"{folder}/parts"), 0.0
    writer = PartWriter(results, RUN)
    for batch in batches(0, rows // PER_SAMPLE, blocks * ROWS_OF_BLOCK):
        begun = time.perf_counter()
        delivery = writer.write([batch])
        if not is_joined:
            writer.forget()
        enter_parts(store, delivery.parts, delivery.replaced)
        seconds += time.perf_counter() - begun
    delivery = writer.write([], is_last=True)
    enter_parts(store, delivery.parts, delivery.replaced)
    parts = store.scalar("SELECT COUNT(*) FROM parts")
    store.close()
    return seconds, parts


def _read(folder: str) -> tuple[float, float]:
    store = open_store(folder)
    begun = time.perf_counter()
    query = "SELECT value, COUNT(*) FROM observations WHERE arm = :arm AND metric = :metric GROUP BY value"
    list(store.rows(query, arm=1, metric="a"))
    counted = time.perf_counter()
    for _ in scan_rows(store, RUN, schema.observations, ["arm", "position", "metric", "value"]):
        pass
    scanned = time.perf_counter()
    store.close()
    return counted - begun, scanned - counted


if __name__ == "__main__":
    raise SystemExit(show(list(figures(*map(int, sys.argv[1:])))))
