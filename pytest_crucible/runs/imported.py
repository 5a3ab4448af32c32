"""Imports results of other harnesses as a run: stores, analyses and decides it as a session does."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_crucible.importers.results import ImportedFile, Row
from pytest_crucible.importers.tasks import group_tasks
from pytest_crucible.records import Contrast, Lost, MetricFacts, Observation, Outcome, Run, Unit, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.imported_plan import ImportedTask, ImportOptions, names_of
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.runs.provenance import environment_facts, utc_now
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """Files of other harnesses, with the tasks, targets and comparisons to decide on them."""

    files: Sequence[ImportedFile]
    tasks: Sequence[ImportedTask]
    alpha: float

    @classmethod
    def of(cls, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedRun:
        """Plan the tasks of the files, before any store is opened. Raises SpecError for invalid options."""
        tasks = [ImportedTask.of(task, files, wishes) for task in group_tasks(files, wishes.arms, wishes.candidate)]
        # Checked over all tasks: a metric may be in one of them only.
        _check_named(wishes, tasks)
        return cls(files=files, tasks=tasks, alpha=wishes.alpha)

    def check_compared(self) -> None:
        """Raise SpecError if no task has two arms with a metric in common."""
        if any(task.plan.contrasts for task in self.tasks):
            return
        arms = {arm.arm: sorted(names_of(arm)) for task in self.tasks for arm in task.task.arms}
        if all(len(task.task.arms) == 1 for task in self.tasks):
            of_arms = ", ".join(f"{task.task.arms[0].arm!r} has task {task.task.name!r}" for task in self.tasks)
            raise SpecError(f"nothing was compared: {of_arms}: compare results of the same tasks")
        of_arms = ", ".join(f"{name!r} has {', '.join(metrics) or 'none'}" for name, metrics in arms.items())
        raise SpecError(f"nothing was compared: the arms share no metric with numbers: {of_arms}")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on reading the file: assumptions, and rows that were left out."""
        notes = [*(file.notes for file in self.files), *(task.notes for task in self.tasks)]
        return tuple(dict.fromkeys(chain.from_iterable(notes)))

    def enter(self, store: RunStore) -> Run:
        """Store the results, analyse them and decide the verdicts."""
        run, environment = (
            secrets.token_hex(6),
            {**environment_facts(), "imported": [_origin(file) for file in self.files]},
        )
        facts = {"started": utc_now(), "seed": 0, "alpha": self.alpha, "correction": "holm", "git": None}
        store.begin_run(run, **facts, environment=environment)
        writer = store.writer()
        try:
            for task in self.tasks:
                _enter(task, store, run, writer)
        finally:
            writer.close()
        return conclude(
            store,
            run,
            extensions=installed_extensions(),
            alpha=self.alpha,
            strict=False,
            interrupted=False,
            amend=lambda verdict: None,
        )

    def evaluate_unstored(self) -> Run:
        """Return the run with its verdicts, as `enter` does, but do not store it."""
        with tempfile.TemporaryDirectory() as folder:
            # A temporary store, so that the analysis is the same as that of a stored run.
            store = RunStore(str(Path(folder) / "compared.db"))
            try:
                run = self.enter(store)
            finally:
                store.close()
        return replace(run, id=" vs ".join(Path(file.path).name for file in self.files), store="")


def _origin(file: ImportedFile) -> dict[str, Any]:
    return {"file": file.path, "sha256": file.sha256, "harness": file.harness, "version": file.version}


def _enter(adopted: ImportedTask, store: RunStore, run: str, writer: Writer) -> None:
    key = store.add_experiment(run, adopted.plan, adopted.samples)
    positions = {sample.id: position for position, sample in enumerate(adopted.samples)}
    kinds = {facts.name: facts for facts in adopted.plan.metrics}
    for number, (arm, results) in enumerate(zip(adopted.plan.arms, adopted.task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        for row in results.rows:
            if row.sample in positions and row.repeat < adopted.plan.repeats:
                writer.add(*_writer_arguments(row, number, positions[row.sample], entered, kinds))
    if all(arm.finished for arm in adopted.task.arms):
        store.finish_experiment(key)


def _writer_arguments(
    row: Row, number: int, position: int, arm: int, facts: Mapping[str, MetricFacts]
) -> tuple[Outcome, int, list[Observation], list[Lost]]:
    """Return a row as the arguments of the writer: outcome, arm, observations and lost scores."""
    unit = Unit(position, 0, number, row.repeat)
    if row.error:
        outcome = Outcome(unit, lost="error", detail=row.error)
        return outcome, arm, [], [Lost(unit, None, "error", row.error)]
    scored = [Observation(unit, name, _value(value, facts[name])) for name, value in row.scores.items()]
    lost = [Lost(unit, name, "scorer", why) for name, why in row.lost.items()]
    return Outcome(unit, reply=row.reply), arm, scored, lost


def _value(value: Value | None, facts: MetricFacts) -> Value | None:
    if value is None:
        return None
    return str(value) if facts.kind == "text" else bool(value) if facts.kind == "binary" else float(value)


def _check_named(wishes: ImportOptions, adopted: Sequence[ImportedTask]) -> None:
    """Raise SpecError for a metric that no file has."""
    metrics = {facts.name for task in adopted for facts in task.plan.metrics}
    named = dict.fromkeys([*wishes.declared.names, *(contrast.metric for contrast in wishes.contrasts)], "there is no")
    named |= {target.metric: f"target {target.text!r} names" for target in wishes.targets}
    for name, what in named.items():
        if name not in metrics:
            raise SpecError(f"{what} metric {name!r}: the files have {', '.join(sorted(metrics))}")
    _check_compared(wishes, adopted)


def _check_compared(wishes: ImportOptions, adopted: Sequence[ImportedTask]) -> None:
    """Raise SpecError for a comparison that the user names and that no task allows."""
    compared = {contrast.metric for task in adopted for contrast in task.plan.contrasts}
    for contrast in wishes.contrasts:
        if contrast.metric not in compared:
            raise SpecError(f"metric {contrast.metric!r} cannot be compared: {_why_not(contrast, adopted)}")


def _why_not(contrast: Contrast, adopted: Sequence[ImportedTask]) -> str:
    """Return why no task allows a comparison."""
    tasks = [task for task in adopted if len(task.task.arms) > 1]
    if not tasks:
        return "no task has two arms"
    lacking = [arm.arm for arm in tasks[0].task.arms if not set(contrast.metrics) <= names_of(arm)]
    if lacking:
        return f"task {tasks[0].task.name!r} of {lacking[0]!r} has no value of it"
    return "its values are text"
