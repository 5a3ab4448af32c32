"""A hundred samples of a file of a million rows, and all of them: CPU time and memory until the samples are there.

`python -m benchmarks.large_dataset 10000000` plans all samples of a larger file.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow.parquet import write_table

from benchmarks.figures import Figure, show

ROWS, LIMIT = 1_000_000, 100
# A process of its own, because memory that was used is not given back. `ru_maxrss` would be that of the parent: it outlives exec.
PROGRAM = """
import sys, time
from pathlib import Path
from pytest_crucible.datasets.load import LargeFile
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
memory, begun = peak(), time.process_time()
samples, rows = LargeFile(Path(sys.argv[1]), {}).draw(int(sys.argv[2]), seed=0)
assert (len(samples), rows) == (int(sys.argv[2]), int(sys.argv[3]))
print(time.process_time() - begun, peak() - memory)
"""

# What a session does with all samples before it sends the first, and then a block of them, as a worker of a cluster.
WHOLE = """
import sys, time
from pathlib import Path
from pytest_crucible.datasets import identify, indexed, load_file
from pytest_crucible.datasets.equal_inputs import group_equal_inputs
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
if sys.argv[3] == "memory":
    indexed.INDEXED_BYTES = 1 << 60
memory, begun = peak(), time.process_time()
dataset = group_equal_inputs(identify("rows", load_file(Path(sys.argv[1]))))
assert len(dataset.samples) == int(sys.argv[2])
seconds, begun = time.process_time() - begun, time.process_time()
places = range(0, len(dataset.samples), max(len(dataset.samples) // 1000, 1))
assert all(dataset.samples[place].id == f"q{place}" for place in places)
print(seconds, peak() - memory, (time.process_time() - begun) / len(places))
"""


def figures(rows: int = ROWS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        with path.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in _rows(rows))
        found = _compare(*(_plan(path, rows, where) for where in ("file", "memory")), rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in _files(Path(folder)):
            seconds, kibibytes = _measure(path)
            what = f"{LIMIT} samples of a million rows, {name}"
            found += [
                Figure(name=what, measured=seconds, unit="s", limit=8),
                Figure(name="- memory", measured=kibibytes / 1024, unit="MiB", limit=400, digits=0),
            ]
    return found


def _compare(in_file: Sequence[float], in_memory: Sequence[float], rows: int) -> list[Figure]:
    (seconds, kibibytes, access), (packed_seconds, packed_kibibytes, packed_access) = in_file, in_memory
    what = f"{rows:,} samples of JSON Lines, from the file"
    return [
        Figure(
            name=f"{what}, beside memory ({packed_seconds:.0f} s)",
            measured=seconds / packed_seconds,
            unit="x",
            limit=1.5,
        ),
        Figure(name="- memory a sample", measured=1024 * kibibytes / rows, unit="bytes", limit=64, digits=0),
        Figure(
            name="- memory a sample, packed in memory", measured=1024 * packed_kibibytes / rows, unit="bytes", digits=0
        ),
        Figure(name="- memory", measured=kibibytes / 1024, unit="MiB", digits=0),
        Figure(name="- to read one sample", measured=1e6 * access, unit="us", limit=100),
        Figure(name="- to unpack one in memory", measured=1e6 * packed_access, unit="us"),
    ]


def _plan(path: Path, rows: int, where: str) -> list[float]:
    """CPU seconds of planning all samples, KiB of memory, and CPU seconds of reading one of them."""
    command = [sys.executable, "-c", WHOLE, str(path), str(rows), where]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [*map(float, done.stdout.split())]


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    with (folder / "ids.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in _rows())
    yield "JSONL with ids", folder / "ids.jsonl"
    with (folder / "none.jsonl").open("w") as file:
        file.writelines(json.dumps({"input": row["input"], "expected": row["expected"]}) + "\n" for row in _rows())
    yield "JSONL without", folder / "none.jsonl"
    with (folder / "ids.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "input", "expected"])
        writer.writeheader()
        writer.writerows(_rows())
    yield "CSV", folder / "ids.csv"
    write_table(pyarrow.Table.from_pylist(list(_rows())), folder / "ids.parquet")
    yield "Parquet", folder / "ids.parquet"


def _rows(count: int = ROWS) -> Iterator[dict[str, Any]]:
    for k in range(count):
        question = f"What is the sum of {k} and {k + 1}, and is it larger than their product when both are positive?"
        yield {"id": f"q{k}", "input": question, "expected": str(2 * k + 1)}


def _measure(path: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", PROGRAM, str(path), str(LIMIT), str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, kibibytes = done.stdout.split()
    return float(seconds), float(kibibytes)


if __name__ == "__main__":
    raise SystemExit(show(figures(*map(int, sys.argv[1:]))))
