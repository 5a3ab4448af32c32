"""Stores runs for tests of lists of samples: what became of each sample in each arm."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_crucible.datasets import identify
from pytest_crucible.records import Lost, Observation, Outcome, Plan, Reply, Sample, Unit
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer
from tests.plan_builders import plan_of


@dataclass(frozen=True)
class Answer:
    """The outcome of one repeat of a sample in an arm."""

    scores: Mapping[str, Any] = field(default_factory=dict)
    text: str = "a reply"
    latency_s: float | None = 1.0
    failure: Any = None
    skipped: bool = False
    is_lost: bool = False
    lost_metrics: tuple[str, ...] = ()


FAILED, SKIPPED, LOST = Answer(failure="assertion"), Answer(skipped=True), Answer(is_lost=True)
Answers = Mapping[str, Sequence[Answer | Sequence[Answer] | None]]
"""By arm, of each sample: its answer, those of its repeats, or None for a sample without a result yet."""


def score(**scores: Any) -> Answer:
    return Answer(scores)


def numbered_samples(count: int) -> list[Sample]:
    return [Sample(id=f"s{k}", input=f"question {k}", expected=str(k)) for k in range(count)]


def store_samples(
    path: Path | str,
    samples: Sequence[Sample],
    arms: Answers,
    *,
    run: str = "run",
    status: str = "finished",
    **plan: Any,
) -> Plan:
    """Store a run; `status` is running for one that is unfinished."""
    with contextlib.closing(RunStore(str(path))) as store:
        if store.scalar("SELECT id FROM runs WHERE id = :run", run=run) is None:
            store.begin_run(
                run, started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", environment={}, git={}
            )
        dataset = identify("d", samples)
        of_plan = plan_of(*arms, n=len(samples), **{"dataset_sha256": dataset.sha256, **plan})
        experiment = store.add_experiment(run, of_plan, samples)
        writer = store.writer()
        for number, (name, answers) in enumerate(arms.items()):
            key = store.add_arm(experiment, number, name, name)
            _write_arm(writer, key, number, answers)
        writer.close()
        if status == "finished":
            store.finish_experiment(experiment)
        if status != "running":
            store.end_run(run, finished="2026-01-01T00:01:00+00:00", status=status)
    return of_plan


def _write_arm(writer: Writer, key: int, number: int, answers: Sequence[Any]) -> None:
    for position, entry in enumerate(answers):
        for repeat, answer in enumerate(entry if isinstance(entry, list | tuple) else [entry]):
            if answer is not None:
                _write(writer, key, Unit(position, 0, number, repeat), answer)


def _write(writer: Writer, key: int, unit: Unit, answer: Answer) -> None:
    reply = None if answer.is_lost or answer.skipped else Reply(text=answer.text, latency_s=answer.latency_s)
    outcome = Outcome(
        unit, reply=reply, failure=answer.failure, skipped=answer.skipped, lost="error" if answer.is_lost else None
    )
    observations = [Observation(unit, name, value) for name, value in answer.scores.items()]
    lost = [Lost(unit, name, "scorer") for name in answer.lost_metrics]
    writer.add(outcome, key, observations, [*lost, *([Lost(unit, None, "error")] if answer.is_lost else [])])
