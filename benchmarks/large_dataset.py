"""A hundred samples of a file of a million rows: CPU time and memory until the samples are there."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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


def figures() -> list[Figure]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in _files(Path(folder)):
            seconds, kibibytes = _measure(path)
            what = f"{LIMIT} samples of a million rows, {name}"
            found += [
                Figure(name=what, measured=seconds, unit="s", limit=8),
                Figure(name="- memory", measured=kibibytes / 1024, unit="MiB", limit=400, digits=0),
            ]
    return found


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


def _rows() -> Iterator[dict[str, Any]]:
    for k in range(ROWS):
        question = f"What is the sum of {k} and {k + 1}, and is it larger than their product when both are positive?"
        yield {"id": f"q{k}", "input": question, "expected": str(2 * k + 1)}


def _measure(path: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", PROGRAM, str(path), str(LIMIT), str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, kibibytes = done.stdout.split()
    return float(seconds), float(kibibytes)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
