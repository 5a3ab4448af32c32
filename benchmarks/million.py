"""A million observations stored, loaded and compared: 250,000 samples, two arms, two metrics, in a process of its own.

The run store, its writer and the conclusion are the real ones; only pytest is left out, which would measure the engine again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.suite import ROOT
from pytest_crucible.records import (
    Arm,
    Contrast,
    Fingerprint,
    MetricFacts,
    Observation,
    Outcome,
    Plan,
    Reply,
    Run,
    Sample,
    Unit,
)
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store.runs import RunStore

SAMPLES, ARMS = 250_000, ("v2", "v1")
METRICS = (
    MetricFacts(name="right", kind="binary", low=0.0, high=1.0),
    MetricFacts(name="score", kind="bounded", low=0.0, high=1.0),
)


def figures() -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.million", "--measure"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    return [
        Figure(name="a million observations stored, loaded, compared", measured=seen["wall_s"], unit="s", limit=60),
        Figure(name="- of that: loaded and compared", measured=seen["compared_s"], unit="s"),
        Figure(name="- most memory", measured=seen["peak_mib"], unit="MiB", limit=1024),
    ]


def measure() -> dict[str, float]:
    """Seconds and MiB of this process. It must be a fresh one."""
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        store = RunStore(str(Path(directory) / "store.db"))
        fill(store)
        filled = time.perf_counter()
        run = conclude_run(store)
        ended = time.perf_counter()
        store.close()
    assert [one.pairs for one in run.experiments[0].comparisons] == [SAMPLES] * len(METRICS)
    peak = peak_mib()
    return {"wall_s": ended - started, "compared_s": ended - filled, "peak_mib": peak}


def fill(store: RunStore, samples: int = SAMPLES) -> None:
    """Store a run of two arms and two metrics, without verdicts."""
    facts = {"git": {}, "environment": {"rules": RULES_VERSION}}
    store.begin_run("million", started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", **facts)
    dataset = [Sample(id=f"sample-{k}", input=f"Is {k} a number?", expected="yes") for k in range(samples)]
    key = store.add_experiment("million", plan(samples), dataset)
    arms = [store.add_arm(key, number, name, name) for number, name in enumerate(ARMS)]
    writer = store.writer()
    for outcome, observations in outcomes(samples):
        writer.add(outcome, arms[outcome.unit.arm], observations, ())
        while writer.behind():
            time.sleep(0.02)
    writer.close()
    store.finish_experiment(key)


def add_requests(store: RunStore) -> None:
    """Give each reply of the run that `fill` has stored a request."""
    store.execute(
        """
        INSERT INTO events (run, experiment, arm, sample, epoch, name, at, seconds, call, request)
        SELECT experiments.run, experiments.nodeid, arms.name, 'sample-' || position, epoch, 'request.stop', 1.0, 0.1, 1, 1
        FROM replies JOIN arms ON arms.id = replies.arm JOIN experiments ON experiments.id = arms.experiment
        """
    )


def conclude_run(store: RunStore) -> Run:
    """Decide and store the verdicts of the run that `fill` has stored."""
    return conclude(store, "million", alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)


def outcomes(samples: int) -> Iterator[tuple[Outcome, list[Observation]]]:
    """Every reply of both arms, in the order in which an engine has them: arms alternate."""
    for position in range(samples):
        for arm in range(len(ARMS)):
            right, score = (position * 7 + arm) % 10 < 7 + arm, (position * 37 + arm * 11) % 100 / 100
            unit = Unit(position, 0, arm, 0)
            reply = Reply(text="yes" if right else "no", latency_s=0.1)
            yield (
                Outcome(unit, reply=reply, started=0.0),
                [Observation(unit, "right", right), Observation(unit, "score", score)],
            )


def plan(samples: int = SAMPLES) -> Plan:
    return Plan(
        nodeid="test_million.py::test_million",
        path="test_million.py",
        line=0,
        dataset="million",
        dataset_sha256="million",
        planned=samples,
        selected=samples,
        groups=None,
        repeats=1,
        arms=(
            Arm(name="v2", role="candidate", adapter="v2", identity="v2"),
            Arm(name="v1", role="baseline", adapter="v1", identity="v1"),
        ),
        metrics=METRICS,
        targets=(),
        contrasts=tuple(Contrast(metric=metric.name, baseline="v1") for metric in METRICS),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
        open_metrics=False,
    )


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure()))
        raise SystemExit
    raise SystemExit(show(figures()))
