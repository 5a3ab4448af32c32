"""What a run has stored, as tables: one row an observation, a reply or an event, read as it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Float, String, and_, null, select
from sqlalchemy import Table as Stored

from pytest_crucible.cns3.antagonist.stored import METRIC, Flagged, from_text
from pytest_crucible.records import ColumnKind, Table
from pytest_crucible.store import schema
from pytest_crucible.store.opening import explained
from pytest_crucible.store.runs import RunStore

_PART = 1000
_PLACE: Mapping[str, ColumnKind] = {"run": "text", "experiment": "text", "arm": "text"}
_UNIT: Mapping[str, ColumnKind] = {**_PLACE, "sample": "text", "group": "text", "epoch": "integer"}

OBSERVATIONS: Mapping[str, ColumnKind] = {
    **_UNIT,
    "metric": "text",  # None: the whole reply is lost
    "value": "number",
    "label": "text",
    "reason": "text",
    "lost": "text",
}
REPLIES: Mapping[str, ColumnKind] = {
    **_UNIT,
    "input": "json",
    "expected": "json",
    "text": "text",
    "input_tokens": "integer",
    "output_tokens": "integer",
    "latency_s": "number",
    "finish": "text",
    "failure": "text",
    "skipped": "flag",
    "detail": "text",
    "started": "number",
}
EVENTS: Mapping[str, ColumnKind] = {
    **_PLACE,
    "sample": "text",
    "epoch": "integer",
    "name": "text",
    "at": "number",
    "seconds": "number",
    "error": "text",
    "input_tokens": "integer",
    "output_tokens": "integer",
    "first_token_s": "number",
    "cost_usd": "number",
    "facts": "json",
}
FINDINGS: Mapping[str, ColumnKind] = {
    **_UNIT,
    "finding": "text",
    "severity": "text",
    "caused_by": "text",
    "evidence": "json",
    "labelled": "flag",
}


def observations(store: RunStore, run: str) -> Table:
    """Every value, and after those of each arm what is lost of it: `lost` is then the reason, and `reason` what happened."""
    seen, lost = schema.observations, schema.lost
    values = (seen.c.metric, seen.c.value, seen.c.label, seen.c.reason, null().cast(String))
    missing = (lost.c.metric, null().cast(Float), null().cast(String), lost.c.detail, lost.c.reason)

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm, dataset in _arms(store, run):
            for table, columns in ((seen, values), (lost, missing)):
                for row in _units(store, table, arm, dataset, columns):
                    yield (*place, *row[:3], row[3] or None, *row[4:])

    return Table(columns=OBSERVATIONS, rows=rows())


def replies(store: RunStore, run: str) -> Table:
    """Every reply, failure and skipped sample. What is lost has none."""
    said, asked = schema.replies.c, schema.samples.c
    columns = (asked.input, asked.expected, *(said[name] for name in list(REPLIES)[len(_UNIT) + 2 :]))

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm, dataset in _arms(store, run):
            yield from ((*place, *row) for row in _units(store, schema.replies, arm, dataset, columns))

    return Table(columns=REPLIES, rows=rows())


def events(store: RunStore, run: str) -> Table:
    """Everything that was told, in the order in which it was written."""
    table = schema.events
    query = select(*(table.c[name] for name in EVENTS)).where(table.c.run == run).order_by(table.c.id)
    return Table(columns=EVENTS, rows=_read(store, query))


def findings(store: RunStore, run: str) -> Table:
    """Every finding of the antagonist, with what it rests on; `labelled` where a person has looked: was it found by them too?"""
    seen = schema.observations

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm, dataset in _arms(store, run):
            for *unit, metric, text in _units(store, seen, arm, dataset, (seen.c.metric, seen.c.label)):
                if metric == METRIC and text is not None:
                    yield from ((*place, *unit, *row) for row in _finding_rows(from_text(text)))

    return Table(columns=FINDINGS, rows=rows())


def _finding_rows(flagged: Flagged) -> Iterator[tuple[Any, ...]]:
    for one in flagged.findings:
        labelled = None if flagged.gold is None else one.name in flagged.gold
        yield one.name, one.severity, one.caused_by, dict(one.evidence), labelled


TABLES: Mapping[str, Callable[[RunStore, str], Table]] = {
    "observations": observations,
    "replies": replies,
    "events": events,
    "findings": findings,
}


def _arms(store: RunStore, run: str) -> Iterator[tuple[tuple[str, str, str], int, str]]:
    """Run, experiment and arm; the arm's key; the dataset's hash."""
    for key, plan, _ in store.experiments(run):
        for number, arm in enumerate(plan.arms):
            yield from (
                ((run, plan.nodeid, arm.name), found, plan.dataset_sha256) for found in _key(store, key, number)
            )


def _key(store: RunStore, experiment: int, number: int) -> Iterator[int]:
    """None for an experiment that never began."""
    table = schema.arms
    query = select(table.c.id).where(table.c.experiment == experiment, table.c.number == number)
    for (key,) in _read(store, query):
        yield key


def _units(
    store: RunStore, table: Stored, arm: int, dataset: str, columns: tuple[Any, ...]
) -> Iterator[tuple[Any, ...]]:
    samples = schema.samples
    of_sample = and_(samples.c.dataset == dataset, samples.c.position == table.c.position)
    query = (
        select(samples.c.sample_id, samples.c.sample_group, table.c.epoch, *columns)
        .select_from(table.join(samples, of_sample))
        .where(table.c.arm == arm)
        .order_by(*(column for column in table.primary_key if column.name != "arm"))
    )
    return _read(store, query)


def _read(store: RunStore, query: Any) -> Iterator[tuple[Any, ...]]:
    """Rows a part at a time, so that a large run never sits in memory."""
    with explained(store.location), store.engine.connect() as connection:
        for part in connection.execution_options(yield_per=_PART).execute(query).partitions():
            yield from map(tuple, part)
