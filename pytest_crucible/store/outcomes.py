"""Reads an arm's outcomes back, and copies stored outcomes into a new run instead of new requests."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Result, Select, Table, and_, case, func, insert, literal, select, true, update

from pytest_crucible.records import (
    HUMAN,
    ORDERS,
    ArmOutcomes,
    CachedReplies,
    Draws,
    Lost,
    ReusedReplies,
    Sample,
    ScoreColumns,
    Unit,
)
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text
from pytest_crucible.store.variants import join_variants, of_arm, place_of, variant_keys

_PART = 500
"""Rows read at a time: few enough to be released before the garbage collector counts 700 objects and visits them all."""


def load_outcomes(
    store: RunStore, experiment: int, number: int, draws: Draws | None = None, twin: int = 0
) -> ArmOutcomes:
    """Return everything that is stored of one arm, on the samples as they are or on their twins in a named variant.

    `draws` are its replies to a sample, needed where it has several prompts.
    """
    with explain_errors(store.location), store.engine.connect() as connection:
        keys = variant_keys(connection, experiment, number, twin)
    if draws is None or len(keys) < 2:
        return load_arm(store, keys[0][0] if keys else None, number)
    return join_variants([(variant, load_arm(store, key, number)) for key, variant in keys], draws)


def load_arm(store: RunStore, arm: int | None, number: int) -> ArmOutcomes:
    """Return everything that is stored of the arm with this key, as of an arm of that number. None has no outcomes."""
    replies, observations, lost = schema.replies, schema.observations, schema.lost
    with explain_errors(store.location), store.engine.connect() as connection:
        units = connection.execute(_unit_query(replies).where(replies.c.arm == arm))
        columns = _columns(units, 4)
        scores = _scores(
            connection, arm, _metrics(connection, select(observations.c.metric).where(observations.c.arm == arm))
        )
        labels = select(observations.c.metric).where(observations.c.arm == arm, observations.c.label.is_not(None))
        names = _metrics(connection, labels)
        return ArmOutcomes(
            positions=columns[0],
            repeats=columns[1],
            failures=columns[2],
            skipped=columns[3],
            scores=scores,
            labels=frozenset(names),
            told=_load_texts(connection, arm, [name for name in names if name.endswith((HUMAN, ORDERS))]),
            lost=[
                Lost(Unit(row.position, 0, number, row.epoch), row.metric or None, row.reason, row.detail or "")
                for row in connection.execute(select(lost).where(lost.c.arm == arm))
            ],
        )


def reply_texts(store: RunStore, experiment: int, number: int, positions: Sequence[int]) -> dict[int, str]:
    """Return an arm's first reply to each of a few samples, by position."""
    table = schema.replies.join(schema.arms, schema.replies.c.arm == schema.arms.c.id)
    query = (
        select(schema.replies.c.position, stored_text(schema.replies), schema.replies.c.detail)
        .select_from(table)
        .where(
            schema.arms.c.experiment == experiment,
            schema.arms.c.number == number,
            schema.replies.c.position.in_(positions),
            schema.replies.c.epoch == 0,
        )
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        return {position: text or detail or "" for position, text, detail in connection.execute(query)}


def all_reply_texts(
    store: RunStore, experiment: int, number: int, draws: Draws, twin: int = 0
) -> dict[tuple[int, int], str]:
    """Return the texts of an arm's replies to all samples, or to their twins, by position and place; failed ones have none."""
    table = schema.replies
    query = (
        select(table.c.position, place_of(table, draws, twin), stored_text(table))
        .select_from(table.join(schema.arms, table.c.arm == schema.arms.c.id))
        .where(of_arm(experiment, number, twin), table.c.failure.is_(None), table.c.skipped.is_(False))
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        return {(position, place): text or "" for position, place, text in connection.execute(query)}


def group_names(store: RunStore, dataset: str) -> list[str | None]:
    """Return each sample's group, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_group).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def expected_values(store: RunStore, dataset: str) -> list[Any]:
    """Return each sample's `expected`, in the dataset's order."""
    table = schema.samples
    query = select(table.c.expected).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def metadata_values(store: RunStore, dataset: str) -> list[Mapping[str, Any]]:
    """Return each sample's metadata, in the dataset's order; empty where it has none."""
    table = schema.samples
    query = select(table.c.metadata).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return [metadata or {} for metadata in connection.execute(query).scalars()]


def has_metadata(store: RunStore, dataset: str) -> bool:
    """Return whether some sample of the dataset was stored with metadata."""
    return any(metadata_values(store, dataset))


def all_samples(store: RunStore, dataset: str) -> list[Sample]:
    """Return all samples of a dataset, in its order."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return [
            Sample(
                id=row.sample_id,
                input=row.input,
                expected=row.expected,
                group=row.sample_group,
                metadata=row.metadata or {},
            )
            for row in connection.execute(query)
        ]


def sample_contents(store: RunStore, dataset: str) -> list[tuple[str, str]]:
    """Return each sample's id, and its input and expected value as one text, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id, table.c.input, table.c.expected).where(table.c.dataset == dataset)
    with explain_errors(store.location), store.engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.position)).all()
    return [(name, canonical([text, expected])) for name, text, expected in rows]


def sample_ids(store: RunStore, dataset: str, positions: Sequence[int]) -> dict[int, str]:
    """Return the ids of a few samples, by position."""
    table = schema.samples
    query = select(table.c.position, table.c.sample_id).where(
        table.c.dataset == dataset, table.c.position.in_(positions)
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def all_sample_ids(store: RunStore, dataset: str) -> list[str]:
    """Return each sample's id, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def find_arm(
    store: RunStore, fingerprint: str, *, run: str, latest: bool = False, before: int | None = None
) -> tuple[int, str] | None:
    """Return (key, run) of an arm of another run with this fingerprint; None without one.

    It is the latest arm whose experiment is complete, or else the latest; with `latest`, the latest in any case.
    With `before`, only arms of experiments that were entered before that one count.
    """
    joined = schema.arms.join(schema.experiments, schema.arms.c.experiment == schema.experiments.c.id)
    joined = joined.join(schema.runs, schema.experiments.c.run == schema.runs.c.id)
    newest = schema.arms.c.id.desc()
    # The run that made the requests, not one that copied its replies.
    origin = func.coalesce(schema.arms.c.reused_from, schema.runs.c.id)
    query = (
        select(schema.arms.c.id, origin.label("run"))
        .select_from(joined)
        .where(schema.arms.c.fingerprint == fingerprint, schema.runs.c.id != run)
        .where(true() if before is None else schema.arms.c.experiment < before)
        .order_by(*((newest,) if latest else (schema.experiments.c.finished.desc(), newest)))
        .limit(1)
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        row = connection.execute(query).first()
    return None if row is None else (row.id, row.run)


def earlier_arm(store: RunStore, experiment: int, number: int, *, run: str) -> tuple[int, str] | None:
    """Return (key, run) of an equal arm of an earlier run; None without one, and for arms without a fingerprint."""
    table = schema.arms
    query = select(table.c.fingerprint).where(table.c.experiment == experiment, table.c.number == number)
    with explain_errors(store.location), store.engine.connect() as connection:
        fingerprint = connection.execute(query).scalar()
    return find_arm(store, fingerprint, run=run, before=experiment) if fingerprint else None


def copy_outcomes(store: RunStore, source: int, target: int, *, source_run: str, draws: Draws) -> set[tuple[int, int]]:
    """Copy an arm's outcomes to a new arm, so that every run is complete by itself. Return the (position, repeat) copied.

    `draws` are the replies of the new arm: a repeat is copied to the same number in the same training and round. Lost units
    are not copied: they are requested again.
    """
    with explain_errors(store.location), store.engine.begin() as connection:
        numbers = _copied_repeats(connection, source, draws)
        for table in (schema.replies, schema.observations, schema.lost):
            connection.execute(_copy(table, source, target, numbers))
        connection.execute(_copy_calls(source, target, numbers))
        query = select(schema.replies.c.position, schema.replies.c.epoch).where(schema.replies.c.arm == target)
        done = {(position, repeat) for position, repeat in connection.execute(query)}
        statement = update(schema.arms).where(schema.arms.c.id == target)
        connection.execute(statement.values(reused_from=source_run, reused_answers=len(done)))
    return done


def units_to_copy(store: RunStore, source: int, draws: Draws) -> set[tuple[int, int]]:
    """Return the (position, repeat) that `copy_outcomes` would copy, and copy nothing."""
    with explain_errors(store.location), store.engine.connect() as connection:
        numbers = _copied_repeats(connection, source, draws)
        query = select(schema.replies.c.position, schema.replies.c.epoch).where(schema.replies.c.arm == source)
        return {(position, numbers[repeat]) for position, repeat in connection.execute(query) if repeat in numbers}


def _copied_repeats(connection: Connection, source: int, draws: Draws) -> dict[int, int]:
    """Return the new number of each stored repeat that has a place in the new arm."""
    places = {draws.levels(repeat)[1:]: repeat for repeat in range(draws.size // draws.prompts)}
    stored = _repeat_places(connection, source) or {
        number: place for place, number in places.items() if not any(place[:2])
    }
    return {number: places[place] for number, place in stored.items() if place in places}


def reused_replies(store: RunStore, experiment: int) -> dict[str, ReusedReplies]:
    """Return, by arm, the stored replies that were copied into this run."""
    table = schema.arms
    # Variants of an arm have rows of its name.
    query = select(table.c.name, func.min(table.c.reused_from), func.sum(table.c.reused_answers))
    query = query.where(table.c.experiment == experiment, table.c.reused_from.is_not(None)).group_by(table.c.name)
    with explain_errors(store.location), store.engine.connect() as connection:
        return {name: ReusedReplies(run=run, replies=replies) for name, run, replies in connection.execute(query)}


def inapplicable_reasons(store: RunStore, experiment: int, number: int) -> dict[str, str]:
    """Return, for each metric with inapplicable samples in an arm, the reason on one of them."""
    table, arms = schema.observations, schema.arms
    query = (
        select(table.c.metric, func.min(table.c.reason))
        .join(arms, arms.c.id == table.c.arm)
        .where(of_arm(experiment, number), table.c.value.is_(None), table.c.label.is_(None))
        .group_by(table.c.metric)
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        return {metric: reason or "" for metric, reason in connection.execute(query)}


def load_texts(
    store: RunStore, experiment: int, number: int, metric: str, draws: Draws | None = None
) -> dict[tuple[int, int], str]:
    """Return the values of a text metric in an arm by (position, repeat)."""
    table, arms = schema.observations, schema.arms
    query = (
        select(table.c.position, place_of(table, draws or Draws()), table.c.label)
        .join(arms, arms.c.id == table.c.arm)
        .where(of_arm(experiment, number))
        .where(table.c.metric == metric, table.c.label.is_not(None))
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        return {(position, repeat): label for position, repeat, label in connection.execute(query)}


def cached_replies(store: RunStore, experiment: int) -> dict[str, CachedReplies]:
    """Return, by arm, how many replies were read from the reply cache."""
    table = schema.arms
    query = select(table.c.name, table.c.cache_hits, table.c.requests, table.c.cache_since)
    query = query.where(table.c.experiment == experiment, table.c.cache_hits > 0)
    with explain_errors(store.location), store.engine.connect() as connection:
        return {
            name: CachedReplies(replies=hits, requests=requests, since=_moment(since))
            for name, hits, requests, since in connection.execute(query)
        }


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _repeat_places(connection: Any, arm: int) -> dict[int, tuple[int, ...]]:
    """Return (training, round, number in the round) of each repeat of an arm's experiment; empty in a run of formats before 4."""
    table, arms = schema.repeats, schema.arms
    experiment = select(arms.c.experiment).where(arms.c.id == arm).scalar_subquery()
    query = select(table.c.number, func.coalesce(table.c.training, 0), table.c.round, table.c.epoch)
    return {
        number: tuple(place) for number, *place in connection.execute(query.where(table.c.experiment == experiment))
    }


def _renumber_repeats(table: Any, numbers: Mapping[int, int]) -> Any:
    """Return the column of the repeat with its new numbers."""
    if all(number == new for number, new in numbers.items()):
        return table.c.epoch
    return case(numbers, value=table.c.epoch).label("epoch")


def _copy(table: Any, source: int, target: int, numbers: Mapping[int, int]) -> Any:
    others = [column for column in table.c if column.name not in ("arm", "epoch")]
    already = select(table.c.arm).where(table.c.arm == target).exists()
    rows: Select[Any] = select(literal(target).label("arm"), _renumber_repeats(table, numbers), *others)
    rows = rows.where(table.c.arm == source, table.c.epoch.in_(list(numbers)), ~already)
    if table is schema.lost:
        rows = rows.where(table.c.metric != "")
    return insert(table).from_select(["arm", "epoch", *(column.name for column in others)], rows)


def _copy_calls(source: int, target: int, numbers: Mapping[int, int]) -> Any:
    """Return a statement that copies the calls of replies.

    Calls of a lost unit are left: the unit is run again, and its calls count from 1 then.
    """
    table, replies, arms = schema.calls, schema.replies, schema.arms
    experiment = select(arms.c.experiment).where(arms.c.id == source).scalar_subquery()
    source_run = select(schema.experiments.c.run).where(schema.experiments.c.id == experiment).scalar_subquery()
    others = [column for column in table.c if column.name not in ("arm", "epoch", "paid_by")]
    paid_by = func.coalesce(table.c.paid_by, source_run)
    answered = and_(
        replies.c.arm == table.c.arm, replies.c.position == table.c.position, replies.c.epoch == table.c.epoch
    )
    renumbered = _renumber_repeats(table, numbers)
    rows: Select[Any] = select(literal(target).label("arm"), renumbered, *others, paid_by.label("paid_by"))
    rows = rows.where(
        table.c.arm == source, table.c.epoch.in_(list(numbers)), select(replies.c.arm).where(answered).exists()
    )
    already = select(table.c.arm).where(table.c.arm == target).correlate(None).exists()
    columns = ["arm", "epoch", *(column.name for column in others), "paid_by"]
    return insert(table).from_select(columns, rows.where(~already))


def _unit_query(replies: Table) -> Select[Any]:
    return select(replies.c.position, replies.c.epoch, replies.c.failure, replies.c.skipped)


def _scores(connection: Any, arm: int | None, metrics: Iterable[str]) -> dict[str, ScoreColumns]:
    table = schema.observations
    scores = {}
    for metric in metrics:
        query = select(table.c.position, table.c.epoch, table.c.value, table.c.is_bool)
        rows = connection.execute(query.where(table.c.arm == arm, table.c.metric == metric, table.c.label.is_(None)))
        positions, repeats, values, is_bool = _columns(rows, 4)
        scores[metric] = ScoreColumns(positions=positions, repeats=repeats, values=values, is_bool=is_bool)
    return scores


def _load_texts(connection: Any, arm: int | None, metrics: Iterable[str]) -> dict[str, list[tuple[int, int, str]]]:
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
    """Return the columns of a result. Rows are read in parts: all rows of a large arm would double the program's memory."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for part in rows.partitions(_PART):
        for column, values in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(values)
    return columns
