"""One task of other harnesses' files as an experiment: planned as a session plans its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.datasets import identify
from pytest_crucible.importing.facts import Declared, metric_facts
from pytest_crucible.importing.joined import Task
from pytest_crucible.importing.results import Imported, Results
from pytest_crucible.plan.design import contrasts, group_count, judged_facts
from pytest_crucible.records import Arm, Contrast, Dataset, Fingerprint, MetricFacts, Plan, Role, Sample, Target
from pytest_crucible.wire import canonical

DEFAULT_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is asked of the files."""

    arms: Sequence[str] = ()
    candidate: str = ""
    targets: Sequence[Target] = ()
    contrasts: tuple[Contrast, ...] = ()
    """Without a baseline. None: of every metric that all arms have."""
    declared: Declared = field(default_factory=Declared)
    alpha: float = DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """One task, planned."""

    task: Task
    plan: Plan
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, task: Task, files: Sequence[Imported], wishes: Wishes) -> Adopted:
        """Raises SpecError for what cannot be meant of it."""
        samples = _samples(task)
        facts, assumed = metric_facts(task.arms, wishes.declared)
        asked = _asked(wishes.contrasts, _compared(task, facts)) if len(task.arms) > 1 else []
        targets = tuple(one for one in wishes.targets if one.metric in {fact.name for fact in facts})
        judged_facts(facts, targets, asked, open_metrics=False)
        judged = {one.metric for one in asked} | {one.metric for one in targets} or set(assumed)
        said = [sentence for name, sentence in assumed.items() if name in judged]
        path = next(file.path for file in files if task.name in {one.task for one in file.results})
        plan = _plan(task, path, identify(task.name, samples), facts, targets, asked)
        return cls(task=task, plan=plan, samples=samples, notes=(*task.notes, *_repeats(task, plan.epochs), *said))


def _plan(
    task: Task,
    path: str,
    dataset: Dataset,
    facts: tuple[MetricFacts, ...],
    targets: tuple[Target, ...],
    asked: Sequence[Contrast],
) -> Plan:
    arms, n = tuple(_arm(number, one) for number, one in enumerate(task.arms)), len(dataset.samples)
    metrics = _sha([one.name for one in facts])
    return Plan(
        nodeid=f"imported::{task.name}",
        path=path,
        line=0,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=n,
        selected=n,
        groups=group_count(dataset),
        epochs=min(one.epochs for one in task.arms),
        arms=arms,
        metrics=facts,
        targets=targets,
        contrasts=contrasts(asked, arms),
        fingerprint=Fingerprint(dataset=dataset.sha256, function=_sha(task.name), metrics=metrics, sampling=""),
        open_metrics=False,
    )


def _samples(task: Task) -> tuple[Sample, ...]:
    """As the candidate was asked them; one that it did not reach, as another arm was."""
    rows = {row.sample: row for one in reversed(task.arms) for row in reversed(one.rows)}
    found = ((name, rows.get(name)) for name in task.samples)
    return tuple(
        Sample(id=name, input=row.input, expected=row.expected, group=row.group) if row else Sample(id=name, input=None)
        for name, row in found
    )


def _arm(number: int, results: Results) -> Arm:
    """Its identity is the file that it is in: which weights answered, nobody knows here."""
    role: Role = "baseline" if number else "candidate"
    return Arm(name=results.arm, role=role, adapter=results.arm, identity=results.identity)


def _compared(task: Task, facts: Sequence[MetricFacts]) -> list[str]:
    """Metrics that every arm has a value of."""
    has = [{name for row in one.rows for name in (*row.scores, *row.lost)} for one in task.arms]
    return [one.name for one in facts if one.kind != "text" and all(one.name in names for names in has)]


def _asked(contrasts: Sequence[Contrast], known: Sequence[str]) -> list[Contrast]:
    wanted = contrasts or [Contrast(metric=name, baseline="") for name in known]
    return [one for one in wanted if one.metric in known]


def _repeats(task: Task, epochs: int) -> Iterator[str]:
    for one in task.arms:
        if one.epochs > epochs:
            yield f"task {task.name!r}: {one.arm!r} has {one.epochs} repeats and another arm {epochs}: the others are left out"


def _sha(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
