"""Looking back: a thousand runs listed, a million observations loaded, a finished run resumed. Each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.million import METRICS, SAMPLES, fill, plan
from benchmarks.suite import ROOT, Suite
from pytest_crucible.records import Sample, Verdict
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore

RUNS, ANSWERS = 1000, 1000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        many, million = Path(directory) / "many.db", Path(directory) / "million.db"
        fill_runs(many)
        _run("--fill", str(million))
        loaded = json.loads(_run("--load", str(million)))
        listed = min(
            _seconds([sys.executable, "-m", "pytest_crucible", "runs", "--store", str(many)]) for _ in range(3)
        )
        resumed = _resumed(Path(directory) / "suite")
    return [
        Figure(name=f"crucible runs over {RUNS:,} runs", measured=listed, unit="s", limit=0.5, digits=2),
        Figure(name="a run of a million observations, loaded", measured=loaded["seconds"], unit="s", limit=5.0),
        Figure(name="- most memory", measured=loaded["peak_mib"], unit="MiB", limit=500),
        Figure(name=f"a finished run of {ANSWERS:,} samples, resumed", measured=resumed, unit="s", limit=1.0, digits=2),
    ]  # fmt: skip


def load(path: str) -> dict[str, float]:
    """Seconds and MiB of this process."""
    store = RunStore(path)
    begun = time.perf_counter()
    [(key, _, _)] = store.experiments("million")
    arms = [load_outcomes(store, key, number) for number in (0, 1)]
    seconds = time.perf_counter() - begun
    assert sum(len(column.values) for arm in arms for column in arm.scores.values()) == SAMPLES * 2 * len(METRICS)
    return {"seconds": seconds, "peak_mib": peak_mib()}


def fill_runs(path: Path) -> None:
    """As sessions leave them: two arms and two verdicts a run."""
    store = RunStore(str(path))
    for number in range(RUNS):
        run = f"{number:012x}"
        started = f"2026-01-01T00:{number // 60:02}:{number % 60:02}+00:00"
        store.begin_run(run, started=started, seed=0, alpha=0.05, correction="holm", git=None, environment={})
        key = store.add_experiment(run, plan(), [Sample(id="s", input="")])
        for k, name in enumerate(("v2", "v1")):
            store.add_arm(key, k, name, name)
        store.add_verdicts(key, [_verdict(subject) for subject in ("right >= 0.5", "right: v2 vs v1")])
        store.end_run(run, finished="", status="finished")
    store.close()


def _verdict(subject: str) -> Verdict:
    return Verdict(nodeid=plan().nodeid, subject=subject, kind="target", state="met", proven=True, reason="")


def _resumed(directory: Path) -> float:
    """Seconds from the first sample to the last of a run whose every answer is stored already."""
    suite = Suite(directory=directory, samples=ANSWERS).write()
    suite.run("--crucible-adapter=v2")
    again = [suite.run("--crucible-adapter=v2", "--crucible-resume") for _ in range(3)]
    assert not any(one["calls"] for one in again)
    return min(one["asking_wall_s"] for one in again)


def _seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - begun


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.history", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    if "--fill" in sys.argv:
        store = RunStore(sys.argv[-1])
        fill(store)
        store.close()
        raise SystemExit
    if "--load" in sys.argv:
        print(json.dumps(load(sys.argv[-1])))
        raise SystemExit
    raise SystemExit(show(figures()))
