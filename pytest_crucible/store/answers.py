"""Reading an arm back, and letting stored answers stand in for new ones."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Result, Select, Table, func, insert, literal, select, true, update

from pytest_crucible.records import HUMAN, ORDERS, Answers, FromCache, Lost, Reused, ScoreColumns
from pytest_crucible.store import schema
from pytest_crucible.store.opening import explained
from pytest_crucible.store.runs import RunStore
from pytest_crucible.wire import canonical

_PART = 500
"""Rows that are read at a time: so few that they are gone before the garbage collector counts 700 and walks them all."""


def load_answers(store: RunStore, experiment: int, number: int) -> Answers:
    """All that is stored of one arm."""
    of_arm = schema.arms.c.experiment == experiment, schema.arms.c.number == number
    with explained(store.location), store.engine.connect() as connection:
        arm = connection.execute(select(schema.arms.c.id).where(*of_arm)).scalar()
    return load_arm(store, arm, number)


def load_arm(store: RunStore, arm: int | None, number: int) -> Answers:
    """All that is stored of the arm with this key, as of an arm of that number; nothing for None."""
    replies, seen, lost = schema.replies, schema.observations, schema.lost
    with explained(store.location), store.engine.connect() as connection:
        units = connection.execute(_unit_query(replies).where(replies.c.arm == arm))
        columns = _columns(units, 4)
        scores = _scores(connection, arm, _metrics(connection, select(seen.c.metric).where(seen.c.arm == arm)))
        labels = select(seen.c.metric).where(seen.c.arm == arm, seen.c.label.is_not(None))
        names = _metrics(connection, labels)
        return Answers(
            positions=columns[0],
            epochs=columns[1],
            failures=columns[2],
            skipped=columns[3],
            scores=scores,
            labels=frozenset(names),
            told=_told(connection, arm, [name for name in names if name.endswith((HUMAN, ORDERS))]),
            lost=[
                Lost(number, row.position, row.epoch, row.metric or None, row.reason, row.detail or "")
                for row in connection.execute(select(lost).where(lost.c.arm == arm))
            ],
        )


def reply_texts(store: RunStore, experiment: int, number: int, positions: Sequence[int]) -> dict[int, str]:
    """The first reply of an arm to each of a few samples, by position."""
    table = schema.replies.join(schema.arms, schema.replies.c.arm == schema.arms.c.id)
    query = (
        select(schema.replies.c.position, schema.replies.c.text, schema.replies.c.detail)
        .select_from(table)
        .where(
            schema.arms.c.experiment == experiment,
            schema.arms.c.number == number,
            schema.replies.c.position.in_(positions),
            schema.replies.c.epoch == 0,
        )
    )
    with explained(store.location), store.engine.connect() as connection:
        return {position: text or detail or "" for position, text, detail in connection.execute(query)}


def group_names(store: RunStore, dataset: str) -> list[str | None]:
    """Each sample's group, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_group).where(table.c.dataset == dataset).order_by(table.c.position)
    with explained(store.location), store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def asked_samples(store: RunStore, dataset: str) -> list[tuple[str, str]]:
    """Each sample's id and all that it asks as one text, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id, table.c.input, table.c.expected).where(table.c.dataset == dataset)
    with explained(store.location), store.engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.position)).all()
    return [(name, canonical([asked, expected])) for name, asked, expected in rows]


def sample_ids(store: RunStore, dataset: str, positions: Sequence[int]) -> dict[int, str]:
    """The ids of a few samples, by position."""
    table = schema.samples
    query = select(table.c.position, table.c.sample_id).where(
        table.c.dataset == dataset, table.c.position.in_(positions)
    )
    with explained(store.location), store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def find_arm(
    store: RunStore, fingerprint: str, *, run: str, latest: bool = False, before: int | None = None
) -> tuple[int, str] | None:
    """(key, run) of the arm of another run with this fingerprint whose answers may stand in.

    That is the latest one whose experiment is complete, or else the latest; with `latest` it is the latest, complete or not.
    With `before`, only arms of experiments that were entered before that one count.
    """
    joined = schema.arms.join(schema.experiments, schema.arms.c.experiment == schema.experiments.c.id)
    joined = joined.join(schema.runs, schema.experiments.c.run == schema.runs.c.id)
    newest = schema.arms.c.id.desc()
    origin = func.coalesce(schema.arms.c.reused_from, schema.runs.c.id)  # the run that asked, not one that copied
    query = (
        select(schema.arms.c.id, origin.label("run"))
        .select_from(joined)
        .where(schema.arms.c.fingerprint == fingerprint, schema.runs.c.id != run)
        .where(true() if before is None else schema.arms.c.experiment < before)
        .order_by(*((newest,) if latest else (schema.experiments.c.finished.desc(), newest)))
        .limit(1)
    )
    with explained(store.location), store.engine.connect() as connection:
        row = connection.execute(query).first()
    return None if row is None else (row.id, row.run)


def earlier_arm(store: RunStore, experiment: int, number: int, *, run: str) -> tuple[int, str] | None:
    """(key, run) of the arm of an earlier run that was all that this one is; None where nothing was stored to be found by."""
    table = schema.arms
    query = select(table.c.fingerprint).where(table.c.experiment == experiment, table.c.number == number)
    with explained(store.location), store.engine.connect() as connection:
        fingerprint = connection.execute(query).scalar()
    return find_arm(store, fingerprint, run=run, before=experiment) if fingerprint else None


def copy_answers(store: RunStore, source: int, target: int, *, source_run: str, epochs: int) -> set[tuple[int, int]]:
    """Copy an arm's answers to a new arm, so that every run is whole by itself; the (position, epoch) that are answered.

    What was lost is not copied: it is asked again.
    """
    with explained(store.location), store.engine.begin() as connection:
        for table in (schema.replies, schema.observations, schema.lost):
            connection.execute(_copy(table, source, target, epochs))
        query = select(schema.replies.c.position, schema.replies.c.epoch).where(schema.replies.c.arm == target)
        done = {(position, epoch) for position, epoch in connection.execute(query)}
        said = update(schema.arms).where(schema.arms.c.id == target)
        connection.execute(said.values(reused_from=source_run, reused_answers=len(done)))
    return done


def reused_answers(store: RunStore, experiment: int) -> dict[str, Reused]:
    """Arm name -> the stored answers that stood in for new ones."""
    table = schema.arms
    query = select(table.c.name, table.c.reused_from, table.c.reused_answers)
    query = query.where(table.c.experiment == experiment, table.c.reused_from.is_not(None))
    with explained(store.location), store.engine.connect() as connection:
        return {name: Reused(run=run, answers=answers) for name, run, answers in connection.execute(query)}


def inapplicable_reasons(store: RunStore, experiment: int, number: int) -> dict[str, str]:
    """Metric -> why it does not apply, of one sample of an arm to which it does not."""
    table, arms = schema.observations, schema.arms
    query = (
        select(table.c.metric, func.min(table.c.reason))
        .join(arms, arms.c.id == table.c.arm)
        .where(
            arms.c.experiment == experiment, arms.c.number == number, table.c.value.is_(None), table.c.label.is_(None)
        )
        .group_by(table.c.metric)
    )
    with explained(store.location), store.engine.connect() as connection:
        return {metric: reason or "" for metric, reason in connection.execute(query)}


def texts_of(store: RunStore, experiment: int, number: int, metric: str) -> dict[tuple[int, int], str]:
    """(position, epoch) -> what a metric of texts said of an arm's reply."""
    table, arms = schema.observations, schema.arms
    query = (
        select(table.c.position, table.c.epoch, table.c.label)
        .join(arms, arms.c.id == table.c.arm)
        .where(arms.c.experiment == experiment, arms.c.number == number)
        .where(table.c.metric == metric, table.c.label.is_not(None))
    )
    with explained(store.location), store.engine.connect() as connection:
        return {(position, epoch): label for position, epoch, label in connection.execute(query)}


def cached_replies(store: RunStore, experiment: int) -> dict[str, FromCache]:
    """Arm name -> the replies that were read from the reply cache."""
    table = schema.arms
    query = select(table.c.name, table.c.cache_hits, table.c.requests, table.c.cache_since)
    query = query.where(table.c.experiment == experiment, table.c.cache_hits > 0)
    with explained(store.location), store.engine.connect() as connection:
        return {
            name: FromCache(replies=hits, requests=requests, since=_moment(since))
            for name, hits, requests, since in connection.execute(query)
        }


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _copy(table: Any, source: int, target: int, epochs: int) -> Any:
    others = [column for column in table.c if column.name != "arm"]
    already = select(table.c.arm).where(table.c.arm == target).exists()
    rows: Select[Any] = select(literal(target).label("arm"), *others)
    rows = rows.where(table.c.arm == source, table.c.epoch < epochs, ~already)
    if table is schema.lost:
        rows = rows.where(table.c.metric != "")
    return insert(table).from_select(["arm", *(column.name for column in others)], rows)


def _unit_query(replies: Table) -> Select[Any]:
    return select(replies.c.position, replies.c.epoch, replies.c.failure, replies.c.skipped)


def _scores(connection: Any, arm: int | None, metrics: Iterable[str]) -> dict[str, ScoreColumns]:
    table = schema.observations
    found = {}
    for metric in metrics:
        query = select(table.c.position, table.c.epoch, table.c.value, table.c.is_bool)
        rows = connection.execute(query.where(table.c.arm == arm, table.c.metric == metric, table.c.label.is_(None)))
        positions, epochs, values, is_bool = _columns(rows, 4)
        found[metric] = ScoreColumns(positions=positions, epochs=epochs, values=values, is_bool=is_bool)
    return found


def _told(connection: Any, arm: int | None, metrics: Iterable[str]) -> dict[str, list[tuple[int, int, str]]]:
    table = schema.observations
    query = select(table.c.position, table.c.epoch, table.c.label).order_by(table.c.position, table.c.epoch)
    query = query.where(table.c.arm == arm, table.c.label.is_not(None))
    return {
        name: [(row[0], row[1], row[2]) for row in connection.execute(query.where(table.c.metric == name))]
        for name in metrics
    }


def _metrics(connection: Any, query: Any) -> list[str]:
    return sorted(connection.execute(query.distinct()).scalars())


def _columns(rows: Result[Any], width: int) -> Sequence[Any]:
    """Rows to lists, a part at a time: all rows of a large arm at once would be most of what this program ever holds."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for part in rows.partitions(_PART):
        for column, values in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(values)
    return columns
