"""What the plugin costs a pytest run that has no experiment, and how long the program takes, installed from a wheel.

Runs with and without `-p no:crucible` alternate, so that a slow moment of the machine hits both. Their limit is held by the CPU
time of the fastest runs, which other programs disturb least; the median over the pairs is shown beside it. Of the program it is the
wall time of the fastest call: numpy starts threads, which use CPU time that nobody waits for.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT, Suite

PAIRS = 45
LIMIT_MS = 2.0
CALLS = 15
LIMITS_S = {"--help": 0.12, "show latest": 0.35}
"""Arguments of the program -> what a call may take."""
SAMPLES = 1_000
"""Of the run that is shown."""


@dataclass(frozen=True, slots=True)
class Over:
    """What a run takes longer with the plugin, in milliseconds: median over the pairs, and its 95 % interval."""

    least: float
    """The fastest run with the plugin less the fastest without."""
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Over:
        """The interval is that of the sign test: it lies between two of the sorted differences."""
        ordered = sorted(ours - bare for ours, bare in pairs)
        rank = int(len(ordered) / 2 - 1.96 * math.sqrt(len(ordered)) / 2)
        ours, bare = zip(*pairs, strict=True)
        return cls(min(ours) - min(bare), statistics.median(ordered), ordered[rank], ordered[-1 - rank])


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        python = _installed(place)
        (place / "suite").mkdir()
        (place / "suite" / "pytest.ini").write_text("[pytest]\n")
        (place / "suite" / "test_empty.py").write_text("def test_nothing():\n    pass\n")
        uncached = _over(python, place / "suite", {"PYTHONDONTWRITEBYTECODE": "1"})  # before pytest's cache is filled
        cached = _over(python, place / "suite", {})
        program = _program_figures(python, place / "stored")
    least = f"start-up without experiments, CPU, fastest of {PAIRS}"
    return [
        Figure(name=least, measured=cached[1].least, unit="ms", limit=LIMIT_MS),
        _figure("- CPU", cached[1]),
        _figure("- wall", cached[0]),
        _figure("- PYTHONDONTWRITEBYTECODE=1, CPU", uncached[1]),
        _figure("- PYTHONDONTWRITEBYTECODE=1, wall", uncached[0]),
        *program,
    ]


def _program_figures(python: str, place: Path) -> list[Figure]:
    """Return how long calls of the program take where a run is stored."""
    suite = Suite(
        directory=place, samples=SAMPLES, marks=("@pytest.mark.quality_target('exact_match >= 0.5')",)
    ).write()
    _timed([python, "-m", "pytest", "-q", "--crucible-adapter=v2"], suite.directory, {})
    figures = []
    for arguments, limit in LIMITS_S.items():
        command = [str(Path(python).parent / "crucible"), *arguments.split()]
        walls, cpus = zip(*(_timed(command, suite.directory, {}) for _ in range(CALLS)), strict=True)
        figures.append(_call_figure(f"crucible {arguments}, wall", walls, limit))
        figures.append(_call_figure("- CPU", cpus, None))
    return figures


def _call_figure(name: str, milliseconds: Sequence[float], limit: float | None) -> Figure:
    return Figure(name=name, measured=min(milliseconds) / 1e3, unit="s", limit=limit, digits=2)


def _figure(name: str, over: Over) -> Figure:
    interval = f"[{over.low:.0f}, {over.high:.0f}]"
    return Figure(name=f"{name}, median of {PAIRS} pairs {interval}", measured=over.median, unit="ms")


def _installed(place: Path) -> str:
    """A Python with the wheel of this checkout and what it requires, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", place / "env"], check=True)
    python = str(place / "env" / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT], check=True, capture_output=True)
    subprocess.run([*pip, "install", *place.glob("*.whl")], check=True, capture_output=True)
    return python


def _over(python: str, suite: Path, settings: Mapping[str, str]) -> tuple[Over, Over]:
    """Wall and CPU time of a run with the plugin less a run without, pair by pair."""
    without = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:crucible"]
    commands = (without[:-2], without)
    for command in commands:  # compiles what is not compiled yet
        _timed(command, suite, settings)
    walls, cpus = [], []
    for _ in range(PAIRS):
        (wall, cpu), (bare_wall, bare_cpu) = (_timed(command, suite, settings) for command in commands)
        walls.append((wall, bare_wall))
        cpus.append((cpu, bare_cpu))
    return Over.of(walls), Over.of(cpus)


def _timed(command: Sequence[str], suite: Path, settings: Mapping[str, str]) -> tuple[float, float]:
    """Wall and CPU milliseconds of a process."""
    ours = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in ours} | dict(settings)
    cpu, wall = _children_cpu(), time.perf_counter()
    subprocess.run(command, cwd=suite, env=environment, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - wall) * 1e3, (_children_cpu() - cpu) * 1e3


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(show(figures()))
