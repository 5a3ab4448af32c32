"""Observations that two Ray workers deliver into Parquet parts, and through the driver and its run store.

`python -m benchmarks.delivered [SAMPLES]`: sessions with recorded replies, two arms and four metrics. Both are measured from the
first block's start until all rows are in parts. Both share the machine's cores with their driver.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

SAMPLES, PER_SAMPLE = 10_000, 8
TRIES = 8
"""Starts of Ray, which gives up on a busy machine."""
_TEST = """
import pytest
from pytest_crucible import Sample

SAMPLES = [Sample(id=f"s{k}", input=f"{k} + 1", expected=str(k + 1)) for k in range(%d)]

def is_short(reply, sample): return len(reply.text) < 20
def is_long(reply, sample): return len(reply.text) > 3
def has_digits(reply, sample): return reply.text.isdigit()

@pytest.mark.crucible(dataset=SAMPLES, metrics=["exact_match", is_short, is_long, has_digits])
@pytest.mark.ab_compare("exact_match")
async def test_sums(sample, sampler):
    return await sampler.generate(sample.input)
"""
_CONFTEST = """
import time
from pathlib import Path
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_crucible_sampled(interrupted):
    yield
    Path("moved").write_text(f"{time.time()} {time.process_time()}")
"""
_THROUGH_DRIVER = """
from pytest_crucible.features.scale import executor
executor.observation_hook = lambda config: print  # as for a plugin that receives observations
"""


def figures(samples: int = SAMPLES) -> Iterator[Figure]:
    """Yield the times of both ways, for a million observations."""
    name = f"{samples * PER_SAMPLE:,} observations of two Ray workers into parts: a million"
    if importlib.util.find_spec("ray") is None:
        yield Figure(name=name, measured=None, unit="s")
        return
    directly, used = _deliver(samples, _CONFTEST)
    through, used_through = _deliver(samples, _CONFTEST + _THROUGH_DRIVER)
    yield Figure(name=name, measured=directly, unit="s", limit=through, digits=1)
    yield Figure(name="- through the driver and its run store", measured=through, unit="s", digits=1)
    yield Figure(name="- observations a second, into parts", measured=1e6 / directly, unit="", digits=0)
    yield Figure(
        name="- the driver's time on cores / that through the driver",
        measured=used / used_through,
        unit="x",
        digits=2,
    )


def _deliver(samples: int, conftest: str) -> tuple[float, float]:
    """Return the seconds for a million observations, and those of the driver on cores, from its start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_sums.py").write_text(_TEST % samples)
        (folder / "conftest.py").write_text(conftest)
        (folder / "pytest.ini").write_text("[pytest]\ncrucible_results = parts\n")
        adapters = []
        for arm, step in (("good", 10), ("fair", 3)):
            texts = (str(k + 1) if k % step else "no" for k in range(samples))
            lines = [json.dumps({"sample_id": f"s{k}", "text": text}) for k, text in enumerate(texts)]
            (folder / f"{arm}.jsonl").write_text("\n".join(lines))
            adapters.append(f'[adapters.{arm}]\nbackend = "recorded"\npath = "{arm}.jsonl"\n')
        (folder / "crucible.toml").write_text("".join(adapters))
        _run(folder)
        connection = sqlite3.connect(folder / "run.db")
        [begun] = connection.execute("SELECT MIN(started) FROM blocks").fetchone()
        [rows] = connection.execute("SELECT SUM(row_count) FROM parts WHERE of_table = 'observations'").fetchone()
        connection.close()
        if rows != samples * PER_SAMPLE:
            raise RuntimeError(f"{rows} observations of {samples} samples")
        moved, used = map(float, (folder / "moved").read_text().split())
    return (moved - begun) / rows * 1e6, used


def _run(folder: Path) -> None:
    options = [
        "--crucible-executor=ray?per_node=2",
        "--crucible-adapter=good",
        "--compare=fair",
        "--crucible-store=run.db",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    for _ in range(TRIES):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if "Ray could not be started" not in done.stderr:
            break
    if done.returncode:
        raise RuntimeError(f"pytest exited {done.returncode}:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    raise SystemExit(show(list(figures(*map(int, sys.argv[1:])))))
