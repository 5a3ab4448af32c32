"""The first command of README on a fresh machine: installing, training both adapters, asking, the verdict; and the next call.

What is installed comes from the package index, so the first figure depends on the line to it. When it is installed, the limit is
held by the CPU time: all is computed in one thread, so that on a quiet machine it is also the time on the wall.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

COMMAND = ("example_suites/claims", "--crucible-adapter=v2", "--compare=v1")


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "clone"
        began = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", ROOT, place], check=True)
        subprocess.run([sys.executable, "-m", "venv", place / ".venv"], check=True)
        python = str(place / ".venv" / "bin" / "python")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-e", place], check=True, capture_output=True)
        installed = time.perf_counter() - began
        (cold, cold_cpu), (again, _) = _asked(python, place), _asked(python, place)
        training = sum(
            json.loads(lineage.read_text())["seconds"]
            for lineage in place.glob(f"{COMMAND[0]}/.crucible/adapters/*/lineage.json")
        )
    return [
        Figure(
            name="README's first command, from a clone to the verdict", measured=installed + cold, unit="s", limit=120.0
        ),
        Figure(name="- when installed, CPU", measured=cold_cpu, unit="s", limit=30.0),
        Figure(name="- when installed, wall", measured=cold, unit="s"),
        Figure(name="- of that: training both adapters, wall", measured=training, unit="s", limit=60.0),
        Figure(name="- the next call, wall", measured=again, unit="s"),
    ]


def _asked(python: str, place: Path) -> tuple[float, float]:
    """Wall and CPU seconds that the command takes."""
    ours = ("PYTHON", "PYTEST_", "CRUCIBLE_", "OPENBLAS_", "OMP_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    cpu, began = _children_cpu(), time.perf_counter()
    subprocess.run([python, "-m", "pytest", *COMMAND], cwd=place, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began, _children_cpu() - cpu


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(show(figures()))
