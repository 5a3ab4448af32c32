"""Enters the rows of imported results into a run store: with their texts, or scores alone as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.packed_rows import ABSENT, RowColumns
from pytest_crucible.importers.results import Call, Results, Row
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
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import sanitize_text
from pytest_crucible.store.writer import Writer

_PART = 20_000  # rows of a statement's columns: some MB


def enter_task(
    store: RunStore,
    run: str,
    writer: Writer,
    task: Task,
    plan: Plan,
    samples: Sequence[Sample],
    *,
    without_texts: bool,
) -> None:
    """Enter one task as an experiment of a run; `without_texts` enters scores, and nothing of prompts and replies."""
    key = store.add_experiment(run, plan, samples)
    positions = {sample: position for position, sample in enumerate(task.samples)}
    for number, (arm, results) in enumerate(zip(plan.arms, task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        rest = _enter_scores(store, entered, results, plan, positions) if without_texts else results.rows
        for row in rest:
            position = positions.get(row.sample)
            if position is None or row.repeat >= plan.repeats:
                continue
            outcome, scored, lost = _outcome(row, Unit(position, 0, number, row.repeat), plan.facts)
            writer.add(replace(outcome, calls=_calls(row, arm), sample=samples[position]), entered, scored, lost)
            # Rows are read faster than they are written, and those that wait take memory.
            if writer.behind():
                writer.flush()
        for unit in _not_planned(task, plan, number, positions):
            writer.add(Outcome(unit, skipped=True), entered, [], [])
    if all(arm.finished for arm in task.arms):
        store.finish_experiment(key)


def _enter_scores(
    store: RunStore, arm: int, results: Results, plan: Plan, positions: Mapping[str, int]
) -> Iterator[Row]:
    """Enter the replies and scores of rows that have lost nothing, and yield the other rows."""
    columns = RowColumns.of(results.rows)
    there = [
        place
        for place, (sample, again) in enumerate(zip(columns.samples, columns.repeats, strict=True))
        if sample in positions and again < plan.repeats
    ]
    for first in range(0, len(there), _PART):
        part = there[first : first + _PART]
        places = [place for place in part if place not in columns.errors and place not in columns.lost]
        _insert_scores(store, arm, columns, plan, positions, places)
        yield from (columns.row(place) for place in part if place in columns.errors or place in columns.lost)


def _insert_scores(
    store: RunStore,
    arm: int,
    columns: RowColumns,
    plan: Plan,
    positions: Mapping[str, int],
    places: Sequence[int],
) -> None:
    """Insert columns as the store has them: objects for each row would take five times as long."""
    with store.begin() as connection:
        units = _units(arm, columns, positions, places)
        nothing = [0] * len(places)
        connection.insert_columns(schema.replies, {**units, "skipped": nothing, "started": nothing}, len(places))
        for metric, scores in columns.scores.items():
            scored = [place for place in places if scores[place] is not ABSENT]
            values = [_value(scores[place], plan.facts[metric]) for place in scored]
            stored = {
                **_units(arm, columns, positions, scored),
                "metric": [metric] * len(scored),
                "value": [None if value is None or isinstance(value, str) else float(value) for value in values],
                "is_bool": [int(isinstance(value, bool)) for value in values],
                "label": [sanitize_text(value) if isinstance(value, str) else None for value in values],
            }
            connection.insert_columns(schema.observations, stored, len(scored))


def _units(
    arm: int, columns: RowColumns, positions: Mapping[str, int], places: Sequence[int]
) -> dict[str, Sequence[Any]]:
    return {
        "arm": [arm] * len(places),
        "position": [positions[columns.samples[place]] for place in places],
        "epoch": [columns.repeats[place] for place in places],
    }


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


def _not_planned(task: Task, plan: Plan, number: int, positions: Mapping[str, int]) -> Iterator[Unit]:
    """Yield what an arm was not meant to have: samples of other arms, and repeats where samples have different numbers of them."""
    results = task.arms[number]
    if not (task.unpaired or results.has_uneven_repeats):
        return
    columns = RowColumns.of(results.rows)
    there = {
        (sample, repeat)
        for sample, repeat in zip(columns.samples, columns.repeats, strict=True)
        if sample in positions and repeat < plan.repeats
    }
    own = {sample for sample, _ in there}.union(results.planned)
    for sample, position in positions.items():
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
