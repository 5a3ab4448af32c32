"""Provenance: what the record of calls adds to a run store, a sample's timeline, and why a verdict is what it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.million import ARMS, METRICS, SAMPLES, add_requests, fill, plan
from benchmarks.suite import ROOT, Suite
from pytest_crucible import trace
from pytest_crucible.features.provenance.exports.files import TIMELINES, write_timelines
from pytest_crucible.features.provenance.load_timeline import load_timelines
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.parser import StatedEvent, parse_events, write_events
from pytest_crucible.features.provenance.run_rows import rows_of_run, run_owners
from pytest_crucible.features.provenance.seals import Sealer
from pytest_crucible.features.provenance.timeline import Step, Timeline
from pytest_crucible.features.provenance.verify import verify_run
from pytest_crucible.metrics.models.scorers import set_current_reply
from pytest_crucible.records import Contrast, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.records.outcomes import FeatureRows
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.sample.garbage import set_objects_aside
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import RowChange, change_of

ONE_CALL_SAMPLES = 5_000


def figures() -> list[Figure]:
    return [
        *recorded_decisions(),
        *numbers_of_events(),
        *timeline_of_a_million(),
        *seals_of_a_run(),
        *why_of_a_suite(),
        *why_of_a_million(),
        *fragile_verdicts(),
        *exported_traces(),
    ]


def fragile_verdicts() -> list[Figure]:
    """Return the seconds of all facts of a verdict on 1,319 pairs, and of two on 250,000 pairs each."""
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(str(Path(directory) / "store.db"))
        fill_pairs(store)
        run = load_run(store, "pairs")
        load_verdict_facts(store, run)  # imports
        started = time.perf_counter()
        [facts] = load_verdict_facts(store, run).values()
        ended = time.perf_counter()
        assert facts.fragility.change is not None
        fill(store)
        million = load_run(store, "million")
        analysed = time.perf_counter()
        load_verdict_facts(store, million)
        everything = time.perf_counter()
        store.close()
    return [
        Figure(name="facts of a verdict on 1,319 pairs", measured=ended - started, unit="s", limit=0.2, digits=2),
        Figure(
            name="facts of two verdicts on a million observations", measured=everything - analysed, unit="s", limit=4
        ),
    ]


def fill_pairs(store: RunStore) -> None:
    """Store a comparison of 1,319 yes-or-no pairs, of which 119 are gained and 180 lost."""
    rates = [(True, True)] * 800 + [(True, False)] * 119 + [(False, True)] * 180 + [(False, False)] * 220
    samples = [Sample(id=f"q{k}", input=str(k)) for k in range(len(rates))]
    store.begin_run(
        "pairs", started="", seed=0, alpha=0.05, correction="holm", git={}, environment={"rules": RULES_VERSION}
    )
    planned = replace(
        plan(),
        nodeid="test_pairs.py::test_pairs",
        dataset_sha256="pairs",
        planned=len(rates),
        selected=len(rates),
        metrics=METRICS[:1],
        contrasts=(Contrast(metric="right", baseline="v1"),),
    )
    key = store.add_experiment("pairs", planned, samples)
    arms = [store.add_arm(key, number, name, name) for number, name in enumerate(ARMS)]
    writer = store.writer()
    for position, pair in enumerate(rates):
        for number, is_right in enumerate(pair):
            unit = Unit(position, 0, number, 0)
            outcome = Outcome(unit, reply=Reply(text="yes"), started=0.0)
            writer.add(outcome, arms[number], [Observation(unit, "right", is_right)], ())
    writer.close()
    store.finish_experiment(key)


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
        add_requests(store)
        started = time.perf_counter()
        timelines = load_timelines(store, "million", f"sample-{SAMPLES // 2}")
        seconds = time.perf_counter() - started
        store.close()
    assert [len(timeline.steps) for timeline in timelines] == [4, 4]
    return [
        Figure(name="a sample's timelines, at a million observations", measured=seconds, unit="s", limit=6, digits=2)
    ]


DECISIONS = 20_000
MEGABYTE = 1_000_000


def recorded_decisions() -> list[Figure]:
    """Return the microseconds of a decision in a sample, and the milliseconds of reading a reply of a megabyte.

    The first reply is nothing but text and events, of 290 characters each; the second nothing but tags, nested 66,666 deep.
    """
    rows: FeatureRows = {}
    set_current_reply("test", "q1", 0, [], feature_rows=rows)
    decide = best_seconds(lambda: [trace.decision("a", ["b"], "c", 0.5) for _ in range(DECISIONS)]) / DECISIONS
    event = write_events([StatedEvent("hypothesis_formed", "binary search", ("scan", "hash"), "it is sorted", 0.8)])
    text = f"Some words of the answer, which go on until the next event comes.\n{event}\n"
    read, nested = (
        best_seconds(lambda reply=reply: parse_events(reply))
        for reply in (text * (MEGABYTE // len(text)), "<event>" * (MEGABYTE // 15) + "</event>" * (MEGABYTE // 15))
    )
    return [
        Figure(name="a recorded decision", measured=decide * 1e6, unit="us", limit=20),
        Figure(
            name=f"reading a reply of 1 MB with {MEGABYTE // len(text):,} events",
            measured=read * 1e3,
            unit="ms",
            limit=20,
        ),
        Figure(name="reading a reply of 1 MB of nested tags", measured=nested * 1e3, unit="ms", limit=None),
    ]


def best_seconds(call: Callable[[], object]) -> float:
    """Return the shortest of five durations, with the objects of this process set aside, as those of a session are."""
    set_objects_aside()

    def measure() -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    return min(measure() for _ in range(5))


def seals_of_a_run() -> list[Figure]:
    """Return what seals cost a suite that calls its model once a sample, and how fast its run is verified."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "suite"
        Suite(directory=place, samples=ONE_CALL_SAMPLES).write().run(
            "--crucible-adapter=v2", "--crucible-store=runs.db"
        )
        store = RunStore(str(place / "runs.db"))
        try:
            run = store.find_run()
            started = time.process_time()
            verification = verify_run(store, run)
            seconds = time.process_time() - started
            whole = _size(store)
            for table in ("seals", "seal_chains"):
                store.execute(f"DELETE FROM {table}")
            bare = _size(store)
            sealing = _sealing_us(store)
        finally:
            store.close()
    assert verification is not None
    assert verification.is_intact
    return [
        Figure(name="seals: added bytes", measured=(whole / bare - 1) * 100, unit="%", limit=8),
        Figure(name="seals: sealing a row", measured=sealing, unit="us", limit=2, digits=2),
        Figure(name="verifying 100,000 rows", measured=1e5 * seconds / verification.rows, unit="s", limit=1, digits=2),
    ]


def _sealing_us(store: RunStore) -> float:
    """Return the microseconds of sealing a row, in commits of 1,000 rows, with the statements that write the seals."""
    with store.connect() as connection:
        changes = [
            change_of(table, rows)
            for table in (schema.replies, schema.observations, schema.calls, schema.events)
            for rows in rows_of_run(connection, table, run_owners(connection, store.find_run()), 1_000)
        ]
        # Other programs on the machine only add to it.
        seconds = min(_seal(connection, changes) for _ in range(5))
    return seconds / sum(change.rows for change in changes) * 1e6


def _seal(connection: Connection, changes: Sequence[RowChange]) -> float:
    """Return the seconds of sealing changes, each in a transaction of its own."""
    sealer, seconds = Sealer(), 0.0
    for change in changes:
        with connection.transaction():
            started = time.process_time()
            with sealer.committing(connection, [sealer.prepare(connection, change)]):
                seconds += time.process_time() - started
    return seconds


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


TRACED_SAMPLES = 1_000


def exported_traces() -> list[Figure]:
    """Return the processor's seconds of writing 10,000 steps of 1,000 samples in the slowest of the formats of timelines."""
    calls = [Step(kind="call", title="call 1", call=1, facts={"prompt": "p" * 200, "reply": "r" * 200})]
    requests = [Step(kind="request", title="request", at=float(k), seconds=0.1, call=1, request=k) for k in range(1, 8)]
    scores = [Step(kind="score", title="right = True", facts={"metric": "right", "value": True})]
    steps = (*calls, *requests, *scores, Step(kind="end", title="answered", facts={"state": "answered"}))
    place = {"run": "r", "experiment": "test_x.py::test_x", "arm": "v2", "repeat": 0, "adapter": "openai:v2"}
    timelines = [Timeline(sample=f"q{k}", steps=steps, **place) for k in range(TRACED_SAMPLES)]
    with tempfile.TemporaryDirectory() as directory:
        seconds = max(_time_export(timelines, Path(directory) / f"trace{ending}") for ending in TIMELINES)
    return [Figure(name="10,000 steps in the slowest format", measured=seconds, unit="s", limit=3, digits=1)]


def _time_export(timelines: list[Timeline], path: Path) -> float:
    started = time.process_time()
    write_timelines(timelines, path)
    return time.process_time() - started


def _size(store: RunStore) -> int:
    """Return the bytes of the compacted database."""
    store.execute("VACUUM")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(store.location).stat().st_size


if __name__ == "__main__":
    raise SystemExit(show(figures()))
