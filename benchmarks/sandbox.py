"""What it takes to run HumanEval's 164 canonical solutions in the sandbox, two at a time; without the data, 164 small programs."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from pytest_crucible.metrics.code_execution import MODULE, humaneval_program
from pytest_crucible.sandbox import Sandbox, allow, withdraw

WORKERS, COUNT = 2, 164


def figures() -> list[Figure]:
    programs = _programs()
    allow()
    with Sandbox(workers=WORKERS) as sandbox:
        begun = time.perf_counter()
        passed = sum(result.passed for result in sandbox.run_all(programs, name=MODULE))
        took = time.perf_counter() - begun
    withdraw()
    if passed != COUNT:
        raise RuntimeError(f"{passed} of {COUNT} programs passed: the figure would mean nothing")
    return [Figure(name=f"sandbox: {COUNT} programs, {WORKERS} at a time", measured=took, unit="s", limit=60)]


def _programs() -> list[str]:
    path = Path(os.environ.get("CRUCIBLE_DATA", "")) / "humaneval" / "HumanEval.jsonl.gz"
    if not path.is_file():
        return [f"assert sum(range({k})) == {k * (k - 1) // 2}" for k in range(COUNT)]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        humaneval_program(row["prompt"], row["canonical_solution"], row["test"], row["entry_point"]) for row in rows
    ]


if __name__ == "__main__":
    raise SystemExit(show(figures()))
