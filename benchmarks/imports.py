"""Two files of half a million rows each, compared: lm-eval's samples and Parquet tables, each in a process of its own.

`python -m benchmarks.imports 100000` compares files of so many rows together.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow.parquet import ParquetWriter

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

ROWS = 1_000_000
PART = 50_000
# A process of its own, because memory that was used is not given back. `ru_maxrss` would be that of the parent: it outlives exec.
# Of the processes that it starts the peaks are read every few milliseconds, and added to its own: they never fall.
PROGRAM = """
import os, resource, sys, threading, time
from pathlib import Path
from pytest_crucible.cli import main

def peak(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024

def watch():
    while not ended.wait(0.02):
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            try:
                # Until a process has its own program, it shows the memory of this one, and its arguments: this text is one.
                if b"pytest_crucible.importers.second_half" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\\0"):
                    peaks[child] = peak(child)
            except (OSError, IndexError):
                pass

peaks, ended = {}, threading.Event()
watching = threading.Thread(target=watch)
watching.start()
begun, cpu = time.perf_counter(), time.process_time()
try:
    main()
except SystemExit as ended_with:
    assert ended_with.code == 1, "the candidate is proven worse"
finally:
    wall = time.perf_counter() - begun
    ended.set()
    watching.join()
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = time.process_time() - cpu + of_children.ru_utime + of_children.ru_stime
    print(wall, cpu, peak("self"), sum(peaks.values()), len(peaks), file=sys.stderr)
"""


def figures(rows: int = ROWS) -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("lm-eval samples", _write_samples), ("Parquet", _write_parquet)):
            paths = [write(Path(folder), arm, rows // 2) for arm in range(2)]
            found += _compare(f"{rows:,} rows compared, {name}", ["compare", *map(str, paths)], rows)
    return found


def _compare(name: str, arguments: list[str], rows: int) -> list[Figure]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"{rows // 2:,}" in done.stdout, done.stderr
    wall, cpu, peak, others, number = map(float, done.stderr.split()[-5:])
    return [
        Figure(name=name, measured=wall, unit="s", limit=20),
        Figure(name="- of that: processor, of all processes", measured=cpu, unit="s"),
        Figure(name="- most memory of the process", measured=peak, unit="MiB", digits=0),
        Figure(
            name=f"- sum of the peaks of it and the {number:.0f} that it started",
            measured=peak + others,
            unit="MiB",
            limit=300,
            digits=0,
        ),
    ]


def _write_samples(folder: Path, arm: int, rows: int) -> Path:
    path = folder / f"arm{arm}.jsonl"
    with path.open("w") as file:
        for row in _rows(arm, rows):
            prompt = f"Question: {row['question']}\nAnswer:"
            sample = {
                "doc_id": row["sample"],
                "doc": {"question": row["question"], "answer": row["answer"]},
                "target": row["answer"],
                "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n\n"], "temperature": 0.0}}},
                "resps": [[row["reply"]]],
                "filtered_resps": [row["reply"][-4:]],
                "filter": "strict-match",
                "metrics": ["exact_match"],
                "doc_hash": "0" * 64,
                "prompt_hash": f"{row['sample']:064x}",
                "target_hash": "0" * 64,
                "exact_match": row["exact_match"],
            }
            file.write(json.dumps(sample) + "\n")
    return path


def _write_parquet(folder: Path, arm: int, rows: int) -> Path:
    path = folder / f"arm{arm}.parquet"
    many = _rows(arm, rows)
    names = ("sample", "question", "reply", "exact_match")
    schema = pyarrow.schema(
        [("sample", "int64"), ("question", "string"), ("reply", "string"), ("exact_match", "double")]
    )
    with ParquetWriter(path, schema) as writer:
        for first in range(0, rows, PART):
            part = [{name: row[name] for name in names} for row in islice(many, min(PART, rows - first))]
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))
    return path


def _rows(arm: int, rows: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(arm)
    for k in range(rows):
        question = (
            f"Natalia sold {k} clips in April, and half as many in May. How many clips did Natalia sell altogether?"
        )
        yield {
            "sample": k,
            "question": question,
            "answer": f"Natalia sold {k}/2 = {k // 2} clips in May, and {k + k // 2} altogether.\n#### {k + k // 2}",
            "reply": f"In May she sold {k} / 2 = {k // 2}, which is {k + k // 2} in total.\n#### {k + k // 2}",
            "exact_match": float(rng.random() < 0.6 + 0.05 * arm),
        }


if __name__ == "__main__":
    raise SystemExit(show(figures(*map(int, sys.argv[1:]))))
