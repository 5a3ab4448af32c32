"""Enters the rows of imported results into a run store: with their texts, or scores alone as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

from pytest_crucible.datasets.named import NamedSamples
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
    if isinstance(samples, NamedSamples):
        _insert_samples(store, plan.dataset_sha256, samples)
    key = store.add_experiment(run, plan, samples)
    positions = {} if without_texts else {sample: position for position, sample in enumerate(task.samples)}
    for number, (arm, results) in enumerate(zip(plan.arms, task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        rows = (
            _enter_scores(store, entered, results, plan, task.samples)
            if without_texts
            else ((positions.get(row.sample), row) for row in results.rows)
        )
        for position, row in rows:
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


def _insert_samples(store: RunStore, dataset: str, samples: NamedSamples) -> None:
    """Insert samples by their columns: objects for each would take ten times as long."""
    for first in range(0, len(samples), _PART):
        part = samples[first : first + _PART]
        columns: dict[str, Sequence[Any]] = {
            "dataset": [dataset] * len(part),
            "position": range(first, first + len(part)),
            "sample_id": store.hide_ids(part.ids),
        }
        if part.groups:
            columns["sample_group"] = store.hide_ids(part.groups)
        with store.begin() as connection:
            connection.insert_columns(schema.samples, columns, len(part))


def _enter_scores(
    store: RunStore, arm: int, results: Results, plan: Plan, samples: Sequence[str]
) -> Iterator[tuple[int | None, Row]]:
    """Enter the replies and scores of rows that have lost nothing, and yield the positions of the other rows, and these."""
    columns = RowColumns.of(results.rows)
    positions = _positions(columns.samples, samples)
    for first in range(0, len(positions), _PART):
        part = range(first, min(first + _PART, len(positions)))
        others = [place for place in part if place in columns.errors or place in columns.lost]
        out = {
            *others,
            *(place for place in part if positions[place] is None or columns.repeats[place] >= plan.repeats),
        }
        _insert_scores(store, arm, columns, plan, positions, [place for place in part if place not in out])
        yield from ((positions[place], columns.row(place)) for place in others)


def _positions(of: Sequence[str], samples: Sequence[str]) -> Sequence[int | None]:
    """Return the place of each id among samples; None for one that is not there."""
    if len(of) == len(samples) and all(map(eq, of, samples)):
        return range(len(of))
    places = {sample: place for place, sample in enumerate(samples)}
    return [*map(places.get, of)]


def _insert_scores(
    store: RunStore,
    arm: int,
    columns: RowColumns,
    plan: Plan,
    positions: Sequence[int | None],
    places: Sequence[int],
) -> None:
    """Insert columns as the store has them: objects for each row would take five times as long."""
    with store.begin() as connection:
        units = _units(arm, columns, positions, places)
        nothing = [0] * len(places)
        connection.insert_columns(schema.replies, {**units, "skipped": nothing, "started": nothing}, len(places))
        for metric, scores in columns.scores.items():
            scored = [place for place in places if scores[place] is not ABSENT]
            stored = {
                **(units if len(scored) == len(places) else _units(arm, columns, positions, scored)),
                "metric": [metric] * len(scored),
                **_stored_values([scores[place] for place in scored], plan.facts[metric].kind),
            }
            connection.insert_columns(schema.observations, stored, len(scored))


def _units(
    arm: int, columns: RowColumns, positions: Sequence[int | None], places: Sequence[int]
) -> dict[str, Sequence[Any]]:
    return {
        "arm": [arm] * len(places),
        "position": [positions[place] for place in places],
        "epoch": [columns.repeats[place] for place in places],
    }


def _stored_values(scores: Sequence[Value | None], kind: str | None) -> dict[str, Sequence[Any]]:
    """Return scores as the store has those of a metric of this kind."""
    nothing = [None] * len(scores)
    if kind == "text":
        texts = [None if score is None else sanitize_text(str(score)) for score in scores]
        return {"value": nothing, "is_bool": [0] * len(scores), "label": texts}
    if kind == "binary":
        flags = [None if score is None else float(bool(score)) for score in scores]
        return {"value": flags, "is_bool": [int(flag is not None) for flag in flags], "label": nothing}
    numbers = [None if score is None else float(score) for score in scores]
    return {"value": numbers, "is_bool": [0] * len(scores), "label": nothing}


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
