"""Enters the rows of imported results into a run store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.packed_rows import RowColumns
from pytest_crucible.importers.results import Call, Row
from pytest_crucible.records import (
    Arm,
    Lost,
    MetricFacts,
    ModelCall,
    Observation,
    Outcome,
    Plan,
    Sample,
    Unit,
    Value,
)
from pytest_crucible.records.serialize import canonical
from pytest_crucible.runs.imported_tasks import Task
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer


def enter_task(
    store: RunStore,
    run: str,
    writer: Writer,
    task: Task,
    plan: Plan,
    samples: Sequence[Sample],
    *,
    without_rows: bool,
) -> None:
    """Enter one task as an experiment of a run; `without_rows` enters no samples and replies."""
    key = store.add_experiment(run, plan, () if without_rows else samples)
    positions = {} if without_rows else {sample: position for position, sample in enumerate(task.samples)}
    for number, (arm, results) in enumerate(zip(plan.arms, task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        if without_rows:
            continue
        for row in results.rows:
            position = positions.get(row.sample)
            if position is None or row.repeat >= plan.repeats:
                continue
            outcome, scored, lost = _outcome(row, Unit(position, 0, number, row.repeat), plan.facts)
            writer.add(replace(outcome, calls=_calls(row, arm), sample=samples[position]), entered, scored, lost)
            # Rows are read faster than they are written, and those that wait take memory.
            if writer.behind():
                writer.flush()
        for unit in _not_planned(task, plan, number):
            writer.add(Outcome(unit, skipped=True), entered, [], [])
    if all(arm.finished for arm in task.arms):
        store.finish_experiment(key)


def _outcome(row: Row, unit: Unit, facts: Mapping[str, MetricFacts]) -> tuple[Outcome, list[Observation], list[Lost]]:
    if row.error:
        return Outcome(unit, lost="error", detail=row.error), [], [Lost(unit, None, "error", row.error)]
    scored = [Observation(unit, name, _value(value, facts[name])) for name, value in row.scores.items()]
    lost = [Lost(unit, name, "scorer", why) for name, why in row.lost.items()]
    return Outcome(unit, reply=row.reply), scored, lost


def _calls(row: Row, arm: Arm) -> list[ModelCall]:
    """Return the requests of a row: the first with its prompt, later ones, whose messages contain replies, without."""
    if row.prompt is None and not row.calls:
        return []
    is_text = row.prompt is None or isinstance(row.prompt, str)
    text = (row.prompt or "") if is_text else canonical(row.prompt)
    first, *later = row.calls or (row,)
    calls = [ModelCall(text, not is_text, 1, _own(first, arm), "", reply=first.reply, error=row.error)]
    return calls + [ModelCall("", False, 1, _own(call, arm), "", reply=call.reply) for call in later]


def _own(request: Row | Call, arm: Arm) -> Mapping[str, Any] | None:
    """Return the settings of a request that differ between the requests of an arm; None for those of the arm."""
    return None if request.parameters == arm.parameters else request.parameters


def _not_planned(task: Task, plan: Plan, number: int) -> Iterator[Unit]:
    """Yield what an arm was not meant to have: samples of other arms, and repeats where samples have different numbers of them."""
    results = task.arms[number]
    if not (task.unpaired or results.has_uneven_repeats):
        return
    columns, samples = RowColumns.of(results.rows), set(task.samples)
    there = {
        (sample, repeat)
        for sample, repeat in zip(columns.samples, columns.repeats, strict=True)
        if sample in samples and repeat < plan.repeats
    }
    own = {sample for sample, _ in there}.union(results.planned)
    for position, sample in enumerate(task.samples):
        is_other = task.unpaired and sample not in own
        for repeat in range(plan.repeats):
            # Of a sample that was not reached, the first repeat is lost.
            is_missing = results.has_uneven_repeats and repeat and (sample, repeat) not in there
            if is_other or is_missing:
                yield Unit(position, 0, number, repeat)


def _value(value: Value | None, facts: MetricFacts) -> Value | None:
    if value is None:
        return None
    return str(value) if facts.kind == "text" else bool(value) if facts.kind == "binary" else float(value)
