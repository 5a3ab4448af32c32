"""Provenance: what the record of calls adds to a run store, a sample's timeline, and why a verdict is what it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.million import SAMPLES, fill
from benchmarks.suite import ROOT, Suite
from pytest_crucible.features.provenance.load_timeline import load_timelines
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store.runs import RunStore

ONE_CALL_SAMPLES = 5_000


def figures() -> list[Figure]:
    return [*numbers_of_events(), *timeline_of_a_million(), *why_of_a_suite(), *why_of_a_million()]


def numbers_of_events() -> list[Figure]:
    """Return the share of bytes that the numbers of calls and requests add to a suite that calls its model once a sample."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "suite"
        Suite(directory=place, samples=ONE_CALL_SAMPLES).write().run(
            "--crucible-adapter=v2", "--crucible-store=runs.db"
        )
        store = RunStore(str(place / "runs.db"))
        try:
            whole = _size(store)
            for column in ("call", "request"):
                store.execute(f"ALTER TABLE events DROP COLUMN {column}")
            bare = _size(store)
        finally:
            store.close()
    return [
        Figure(name="numbers of calls and requests: added bytes", measured=(whole / bare - 1) * 100, unit="%", limit=15)
    ]


def timeline_of_a_million() -> list[Figure]:
    """Return the seconds of reading one sample's timelines, where each of 500,000 replies has a request."""
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(str(Path(directory) / "store.db"))
        fill(store)
        store.execute(
            """
            INSERT INTO events (run, experiment, arm, sample, epoch, name, at, seconds, call, request)
            SELECT experiments.run, experiments.nodeid, arms.name, 'sample-' || position, epoch, 'request.stop', 1.0, 0.1, 1, 1
            FROM replies JOIN arms ON arms.id = replies.arm JOIN experiments ON experiments.id = arms.experiment
            """
        )
        started = time.perf_counter()
        timelines = load_timelines(store, "million", f"sample-{SAMPLES // 2}")
        seconds = time.perf_counter() - started
        store.close()
    assert [len(timeline.steps) for timeline in timelines] == [4, 4]
    return [
        Figure(name="a sample's timelines, at a million observations", measured=seconds, unit="s", limit=6, digits=2)
    ]


def why_of_a_suite() -> list[Figure]:
    """Return the seconds of `crucible why`, start of the program included, on a suite as long as the test part of GSM8K."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "suite"
        suite = Suite(directory=place, samples=1_319, marks=("@pytest.mark.ab_compare('exact_match')",))
        suite.write().run("--crucible-adapter=v1", "--compare=v2", "--crucible-store=runs.db")
        seconds = min(_time_why(place, "exact_match: v1 vs v2") for _ in range(5))
    return [Figure(name="crucible why, n = 1,319", measured=seconds, unit="s", limit=0.5, digits=2)]


def why_of_a_million() -> list[Figure]:
    """Return the seconds of `crucible why` on a comparison of 250,000 pairs in a run of a million observations."""
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(str(Path(directory) / "runs.db"))
        fill(store)
        conclude(store, "million", alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)
        store.close()
        seconds = min(_time_why(Path(directory), "right: v2 vs v1") for _ in range(2))
    return [Figure(name="crucible why, a million observations", measured=seconds, unit="s", limit=6, digits=2)]


def _time_why(folder: Path, subject: str) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest_crucible", "why", "latest", subject, "--store=runs.db"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.stdout.count("\nreplies "), done.stderr
    return time.perf_counter() - started


def _size(store: RunStore) -> int:
    """Return the bytes of the compacted database."""
    store.execute("VACUUM")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(store.location).stat().st_size


if __name__ == "__main__":
    raise SystemExit(show(figures()))
