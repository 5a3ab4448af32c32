"""An experiment's plan for one task of imported files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.datasets import identify
from pytest_crucible.importers.metric_facts import Declared, metric_facts
from pytest_crucible.importers.results import ImportedFile, Results
from pytest_crucible.importers.tasks import Task
from pytest_crucible.plan.contrasts import contrast_of_unnamed, with_declarations
from pytest_crucible.plan.design import (
    check_expected,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    without_unfounded_claim,
)
from pytest_crucible.records import Arm, Contrast, Dataset, Fingerprint, MetricFacts, Plan, Role, Sample, Target, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.settings import DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of an import: arms, targets, comparisons, and facts about metrics."""

    arms: Sequence[str] = ()
    candidate: str = ""
    targets: Sequence[Target] = ()
    contrasts: tuple[Contrast, ...] = ()
    """Without a baseline. Empty: every metric that all arms have."""
    declared: Declared = field(default_factory=Declared)
    alpha: float = DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class ImportedTask:
    """One task of imported files, with its plan and samples."""

    task: Task
    plan: Plan
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, task: Task, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedTask:
        """Plan one task. Raises SpecError for targets and comparisons that do not fit it."""
        samples = _samples(task)
        facts, assumed = metric_facts(task.arms, wishes.declared)
        contrasts_of_task = _contrasts(wishes.contrasts, task, facts) if len(task.arms) > 1 else []
        targets = tuple(target for target in wishes.targets if set(target.metrics) <= {fact.name for fact in facts})
        plan_metrics(facts, targets, contrasts_of_task, open_metrics=False)
        check_expected(targets, contrasts_of_task, samples)
        # The table of comparisons reports it for those without a verdict.
        estimated = {contrast.metric for contrast in contrasts_of_task if not contrast.decides}
        decisive = {name for claim in (*contrasts_of_task, *targets) for name in claim.metrics} or set(assumed)
        assumptions = [sentence for name, sentence in assumed.items() if name in decisive - estimated]
        path = next(file.path for file in files if task.name in {results.task for results in file.results})
        plan = _plan(task, path, identify(task.name, samples), facts, targets, contrasts_of_task)
        return cls(
            task=task, plan=plan, samples=samples, notes=(*task.notes, *_repeats(task, plan.repeats), *assumptions)
        )


def _plan(
    task: Task,
    path: str,
    dataset: Dataset,
    facts: tuple[MetricFacts, ...],
    targets: tuple[Target, ...],
    contrasts_of_task: Sequence[Contrast],
) -> Plan:
    arms, n = tuple(_arm(number, results) for number, results in enumerate(task.arms)), len(dataset.samples)
    metrics = _sha([metric.name for metric in facts])
    return Plan(
        nodeid=f"imported::{task.name}",
        path=path,
        line=0,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=n,
        selected=n,
        groups=group_count(dataset),
        # Repeats are paired between arms; `_repeats` notes those that are left out.
        repeats=min(results.repeats for results in task.arms),
        arms=arms,
        metrics=facts,
        targets=targets,
        contrasts=contrasts_with_baselines(contrasts_of_task, arms, dataset.samples),
        fingerprint=Fingerprint(dataset=dataset.sha256, function=_sha(task.name), metrics=metrics, sampling=""),
        open_metrics=False,
    )


def _samples(task: Task) -> tuple[Sample, ...]:
    """Return the samples as the candidate's rows describe them; samples that it lacks, as another arm's rows do."""
    # In reverse, because a later entry replaces an earlier one: the candidate's first row of a sample wins.
    rows = {row.sample: row for results in reversed(task.arms) for row in reversed(results.rows)}
    groups = _groups(task)
    rows_of_samples = ((name, rows.get(name)) for name in task.samples)
    return tuple(
        Sample(id=name, input=row.input, expected=row.expected, group=groups.get(name), metadata=row.metadata)
        if row
        else Sample(id=name, input=None, group=groups.get(name))
        for name, row in rows_of_samples
    )


def _groups(task: Task) -> dict[str, str]:
    """Return sample -> group, where the files have groups. Raises SpecError for groups that differ between arms."""
    groups: dict[str, str] = {}
    for results in task.arms:
        for row in results.rows:
            if row.group is not None and groups.setdefault(row.sample, row.group) != row.group:
                raise SpecError(
                    f"task {task.name!r}: sample {row.sample!r} is in group {groups[row.sample]!r} and, for "
                    f"{results.arm!r}, in {row.group!r}: a sample has one group"
                )
    # A sample that no arm reached has no known group. Without a group of its own, none could be used.
    return {name: groups.get(name, f"sample {name}") for name in task.samples} if groups else {}


def _arm(number: int, results: Results) -> Arm:
    """Return an arm whose identity is its file, which does not show which weights answered."""
    role: Role = "baseline" if number else "candidate"
    return Arm(name=results.arm, role=role, adapter=results.arm, identity=results.identity, recorded=True)


def names_of(arm: Results) -> set[str]:
    """Return the names of the metrics that an arm has."""
    return {name for row in arm.rows for name in (*row.scores, *row.lost)}


def _common_metrics(task: Task, facts: Sequence[MetricFacts]) -> list[str]:
    """Return the metrics with a value in every arm."""
    has = [names_of(arm) for arm in task.arms]
    return [metric.name for metric in facts if metric.kind != "text" and all(metric.name in names for names in has)]


def _contrasts(chosen: Sequence[Contrast], task: Task, facts: Sequence[MetricFacts]) -> list[Contrast]:
    """Return the chosen comparisons that the task allows, or else one for each metric that all arms have."""
    common, by_name = _common_metrics(task, facts), {metric.name: metric for metric in facts}
    contrasts = chosen or [contrast_of_unnamed(by_name[name], _values(task, name)) for name in common]
    possible = [contrast for contrast in contrasts if set(contrast.metrics) <= set(common)]
    decidable = (without_unfounded_claim(contrast, by_name[contrast.metric]) for contrast in possible)
    return list(with_declarations(decidable, facts))


def _values(task: Task, metric: str) -> Iterator[Value | None]:
    return (row.scores.get(metric) for arm in task.arms for row in arm.rows)


def _repeats(task: Task, repeats: int) -> Iterator[str]:
    for arm in task.arms:
        if arm.repeats > repeats:
            yield f"task {task.name!r}: {arm.arm!r} has {arm.repeats} repeats and another arm {repeats}: the others are left out"


def _sha(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
