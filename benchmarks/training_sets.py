"""Time of a row that `crucible export` writes, from the run store to the files: duplicates compared, holdout, card and origins.

Supervised rows are one of each reply that passed, preferences one of two replies to a sample. A question has 30 words. Where all
replies are "yes" or "no", the questions alone tell duplicates apart, so that they are compared with each other.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from pytest_crucible.cli import main as crucible
from pytest_crucible.records import (
    Arm,
    Fingerprint,
    MetricFacts,
    ModelCall,
    Observation,
    Outcome,
    Plan,
    Reply,
    Sample,
    Unit,
)
from pytest_crucible.store.runs import RunStore

SAMPLES = 20_000
WORDS = 30
LIMIT_US = 50
"""20,000 rows a second."""


def figures() -> list[Figure]:
    return [
        *_figures(lambda position, repeat: f"reply {position} {repeat}", "training sets: a row of", limit=LIMIT_US),
        *_figures(lambda position, repeat: ("yes", "no")[repeat], '- with replies "yes" and "no":'),
    ]


def _figures(reply: Callable[[int, int], str], name: str, limit: float | None = None) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        _fill(folder / "runs.db", reply)
        for task, rows in {"sft": SAMPLES, "dpo": SAMPLES, "kto": 2 * SAMPLES}.items():
            seconds = min(_export(folder, task) for _ in range(4))
            yield Figure(name=f"{name} {task}", measured=seconds / rows * 1e6, unit="us", limit=limit)


def _export(folder: Path, task: str) -> float:
    output, store = folder / f"{task}.jsonl", folder / "runs.db"
    started = time.process_time()
    arguments = ["--what", task, "--on", "right", "--holdout", "0.1", "-o", str(output), "--store", str(store)]
    assert crucible(["export", *arguments]) == 0
    seconds = time.process_time() - started
    card = json.loads((folder / f"{task}.card.json").read_text(encoding="utf-8"))
    assert card["rows"] == (2 if task == "kto" else 1) * SAMPLES * 9 // 10
    return seconds


def _fill(path: Path, text: Callable[[int, int], str]) -> None:
    draw = random.Random(0)
    vocabulary = [f"word{number}" for number in range(5_000)]
    samples = [Sample(id=f"s{number}", input=" ".join(draw.choices(vocabulary, k=WORDS))) for number in range(SAMPLES)]
    store = RunStore(str(path))
    store.begin_run("run", started="", seed=0, alpha=0.05, correction="holm", git={}, environment={})
    store.run_id = "run"
    key = store.add_experiment("run", _plan(), samples)
    arm = store.add_arm(key, 0, "v1", "v1")
    writer = store.writer()
    for position, sample in enumerate(samples):
        for repeat in range(2):
            unit = Unit(position, 0, 0, repeat)
            reply = Reply(text=text(position, repeat))
            call = ModelCall(f"Answer in short.\n\n{sample.input}", False, 1, None, "", reply)
            outcome = Outcome(unit, reply=reply, calls=[call], sample=sample)
            writer.add(outcome, arm, [Observation(unit, "right", repeat == 0)], ())
        while writer.behind():
            time.sleep(0.02)
    writer.close()
    store.finish_experiment(key)
    store.close()


def _plan() -> Plan:
    return Plan(
        nodeid="test_practice.py::test_practice",
        path="test_practice.py",
        line=0,
        dataset="practice",
        dataset_sha256="practice",
        planned=SAMPLES,
        selected=SAMPLES,
        groups=None,
        repeats=2,
        arms=(Arm(name="v1", role="candidate", adapter="local:v1", identity="v1"),),
        metrics=(MetricFacts(name="right", kind="binary", low=0.0, high=1.0),),
        targets=(),
        contrasts=(),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
        open_metrics=False,
        purpose="practice",
    )


if __name__ == "__main__":
    raise SystemExit(show(figures()))
