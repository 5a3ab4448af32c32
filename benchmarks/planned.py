"""Memory of a million planned samples: a real pytest session with a dataset of a million lines, until the first request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

SAMPLES = 1_000_000
_FILES = {
    "pytest.ini": "[pytest]\n",
    "crucible.toml": '[adapters.v2]\nbackend = "scripted"\nscript = "answers:answer"\n',
    "answers.py": '''\
"""Asked for the first time, it says how much memory there is, and ends the process."""
import os
import time
from pathlib import Path

STARTED = time.perf_counter()


def answer(request):
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    Path("seen.txt").write_text(f"{peak} {time.perf_counter() - STARTED}")
    os._exit(0)
''',
    "test_sums.py": """\
import pytest


@pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
@pytest.mark.quality_target("exact_match >= 0.5")
async def test_sums(sample, sampler):
    return await sampler.generate(sample.input)
""",
}


def figures() -> list[Figure]:
    few, _ = _measured(10)
    many, seconds = _measured(SAMPLES)
    return [
        Figure(name="1,000,000 planned samples: most memory before a reply", measured=many, unit="MiB", limit=286),
        Figure(name="- of that: a session of 10 samples", measured=few, unit="MiB"),
        Figure(name="- from opening the adapter to the first request", measured=seconds, unit="s"),
    ]


def _measured(samples: int) -> tuple[float, float]:
    """Return the MiB at the most, and the seconds, until the first request."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name, text in _FILES.items():
            (place / name).write_text(text)
        with (place / "sums.jsonl").open("w") as file:
            for k in range(samples):
                row = {
                    "id": f"q{k:07}",
                    "input": f"What is {k} plus {k}? Answer with one number.",
                    "expected": f"{2 * k}",
                }
                file.write(f"{json.dumps(row)}\n")
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--crucible-adapter=v2"]
        environment = {**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""}
        subprocess.run(command, cwd=place, env=environment, capture_output=True, check=True)
        peak, seconds = map(float, (place / "seen.txt").read_text().split())
    return peak, seconds


if __name__ == "__main__":
    raise SystemExit(show(figures()))
