"""Seconds and CPU of one evaluation - 1,000 samples, queried from a server that takes 50 ms, 64 at a time - by several tools.

`python -m benchmarks.peers [--samples N] [--repeats K] [NAME ...]`. Each tool runs in a process of its own, in turn, on one
core, against the same server, which has another; the medians count (those that send one request at a time run once). It
exits 1 when a peer is faster than this package.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.cores import apart
from benchmarks.peers.environments import python_of, version_of
from benchmarks.suite import ROOT

PROGRAMS = Path(__file__).parent / "programs"
CONCURRENCY, LATENCY_S = 64, 0.05
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
ONE_AT_A_TIME = ("pytest_evals", "pytest_asyncio")


@dataclass(frozen=True)
class Peer:
    """A tool: the package whose version is told (None: no tool), and the command that runs the evaluation."""

    package: str | None
    command: tuple[str, ...]


PEERS = {
    "crucible": Peer("pytest-crucible", (*PYTEST, "crucible", f"--crucible-concurrency={CONCURRENCY}")),
    "gather": Peer(None, ("gather.py",)),
    "pydantic_evals": Peer("pydantic-evals", ("pydantic_evals_evaluate.py",)),
    "deepeval": Peer("deepeval", ("deepeval_evaluate.py",)),
    "inspect": Peer("inspect-ai", ("inspect_tuned.py",)),
    "pytest_evals": Peer("pytest-evals", (*PYTEST, "--run-eval", "pytest_evals")),
    "pytest_asyncio": Peer("pytest-asyncio", (*PYTEST, "pytest_asyncio")),
}


def main() -> int:
    told = _told()
    rows, walls = [], {}
    with _server() as server, apart(server.process.pid):
        for name in told.names or PEERS:
            python = python_of(name)
            repeats = 1 if name in ONE_AT_A_TIME else told.repeats  # a minute each
            runs = [_run(name, python, server.url, told.samples) for _ in range(repeats)]
            wall, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
            walls[name] = wall
            rows.append((name, _version(name, python), wall, cpu, 1000 * cpu / told.samples))
    ideal = told.samples * LATENCY_S / CONCURRENCY
    shown = [(*row, row[2] / walls.get("crucible", ideal)) for row in rows]
    print(f"{told.samples:,} samples of {LATENCY_S * 1000:g} ms, {CONCURRENCY} at a time: ideal {ideal:.2f} s\n")
    print(tabulate(shown, ("tool", "version", "wall s", "CPU s", "ms of CPU a sample", "x crucible"), "github", ".2f"))
    ours = walls.pop("crucible", 0.0)
    return int(any(wall < ours for name, wall in walls.items() if name != "gather"))


def _told() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PEERS)}; all by default", metavar="NAME")
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    told = parser.parse_args()
    if unknown := set(told.names) - set(PEERS):
        parser.error(f"no peer is called {min(unknown)!r}: there are {', '.join(PEERS)}")
    return told


def _server():  # type: ignore[no-untyped-def]
    sys.path.insert(0, str(ROOT / "tests"))
    from openai_server import OpenAIServer

    return OpenAIServer.start(latency_s=LATENCY_S)


def _version(name: str, python: str) -> str:
    package = PEERS[name].package
    return version_of(python, package) if package else ""


def _run(name: str, python: str, url: str, samples: int) -> tuple[float, float]:
    """Wall and CPU seconds of a whole process."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "programs"
        shutil.copytree(PROGRAMS, place)
        (place / "pytest.ini").write_text("[pytest]\n")
        adapter = (f"--crucible-adapter={url.replace('http://', 'openai+http://')}#m",) if name == "crucible" else ()
        return _timed([python, *PEERS[name].command, *adapter], place, url, samples)


def _timed(command: list[str], place: Path, url: str, samples: int) -> tuple[float, float]:
    told = {"PEERS_URL": url, "PEERS_SAMPLES": str(samples), "PEERS_CONCURRENCY": str(CONCURRENCY)}
    quiet = {"PYTHONPATH": ".", "DEEPEVAL_TELEMETRY_OPT_OUT": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(command, cwd=place, env={**os.environ, **told, **quiet}, capture_output=True, text=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
