"""What a process costs from its start to its end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parent / "programs"
CONCURRENCY = 64


@dataclass(frozen=True)
class Load:
    """Samples of an evaluation. Without a latency no server is asked: the program answers at once."""

    name: str
    samples: int
    latency_s: float = 0.0


class Cost(NamedTuple):
    """The cost of a process: seconds, and the most memory that was resident at a time."""

    wall_s: float
    cpu_s: float
    megabytes: float


def measure(command: Sequence[str], load: Load, url: str) -> Cost:
    """Return what a program costs, run in a copy of all programs. Raises SystemExit with its output where it fails."""
    settings = {
        "PEERS_URL": url if load.latency_s else "",
        "PEERS_SAMPLES": str(load.samples),
        "PEERS_CONCURRENCY": str(CONCURRENCY),
        "PYTHONPATH": ".",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "programs"
        shutil.copytree(PROGRAMS, place, ignore=shutil.ignore_patterns("__pycache__"))
        (place / "pytest.ini").write_text("[pytest]\n")
        output = place / "output"
        status, cost = _run(command, place, {**os.environ, **settings}, output)
        if status:
            raise SystemExit(f"{' '.join(command)} failed:\n{output.read_text()[-4000:]}")
    return cost


def _run(command: Sequence[str], place: Path, environment: dict[str, str], output: Path) -> tuple[int, Cost]:
    with output.open("w") as written:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=written, stderr=subprocess.STDOUT)
        # The memory of the benchmark itself (25 MB) is the least that is seen here: Linux counts it until `exec`.
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)
