"""Reads an arm's outcomes back, and the texts of its replies.

Variants of an arm have rows of their own in `arms`, which readers join to their arm. A variant is a form of the prompt, of the
original samples (twin 0) or of their twins in a named variant (twin 1, 2 ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Result, Select, Table, and_, func, or_, select

from pytest_crucible.records import HUMAN, ORDERS, VOTES, ArmOutcomes, Draws, Lost, ScoreColumns, Unit
from pytest_crucible.records.outcomes import join_outcomes, move_units
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text


def of_arm(experiment: int, number: int, twin: int = 0) -> ColumnElement[bool]:
    """Return the condition for the rows of `arms` that are an arm of an experiment, on the original samples or on twins."""
    arms, first, named = schema.arms, schema.arms.alias(), schema.variants
    original = select(first.c.id).where(first.c.experiment == experiment, first.c.number == number).scalar_subquery()
    of_twin = select(named.c.number).where(named.c.experiment == experiment, named.c.twin == twin)
    rows = and_(arms.c.original == original, arms.c.variant.in_(of_twin))
    # Only the experiment has an index.
    return (arms.c.experiment == experiment) & (rows if twin else or_(arms.c.id == original, rows))


def place_of(table: Any, draws: Draws, twin: int = 0) -> ColumnElement[int]:
    """Return the place of a row's reply in the table of replies to a sample or a twin, for a query that joins `arms`."""
    repeat: ColumnElement[int] = table.c.epoch
    if draws.prompts == 1:
        return repeat
    variant: ColumnElement[int] = func.coalesce(schema.arms.c.variant, 0) - twin * draws.prompts
    return variant * (draws.size // draws.prompts) + repeat


def variant_keys(store: RunStore, experiment: int, number: int, twin: int = 0) -> list[tuple[int, int]]:
    """Return (key, variant) of each row of an arm, in the order of the prompts; empty for an arm that never began.

    Variants of a twin are counted from 0, as those of the original samples.
    """
    arms, named = schema.arms, schema.variants
    same = (named.c.experiment == arms.c.experiment) & (named.c.number == arms.c.variant)
    query = select(arms.c.id, func.coalesce(named.c.prompt, 0)).select_from(arms.outerjoin(named, same))
    query = query.where(of_arm(experiment, number, twin)).order_by(arms.c.number)
    return [(key, prompt) for key, prompt in store.rows(query)]


def _move_repeats(answers: ArmOutcomes, by: int) -> ArmOutcomes:
    """Return the outcomes with repeats that count from another number on."""
    if not by:
        return answers
    texts = {name: [(at, repeat + by, text) for at, repeat, text in rows] for name, rows in answers.judge_texts.items()}
    return replace(move_units(answers, lambda unit: (unit[0], unit[1] + by)), judge_texts=texts)


_PART = 500
"""Rows read at a time: few enough to be released before the garbage collector counts 700 objects and visits them all."""


def load_outcomes(
    store: RunStore, experiment: int, number: int, draws: Draws | None = None, twin: int = 0
) -> ArmOutcomes:
    """Return everything stored about one arm, on the original samples or on their twins in a named variant.

    `draws` are its replies to a sample, needed where it has several prompts.
    """
    keys = variant_keys(store, experiment, number, twin)
    if draws is None or len(keys) < 2:
        return load_arm(store, keys[0][0] if keys else None, number)
    variants = ((variant, load_arm(store, key, number)) for key, variant in keys)
    return join_outcomes([_move_repeats(answers, draws.place(variant, 0)) for variant, answers in variants])


def load_arm(store: RunStore, arm: int | None, number: int) -> ArmOutcomes:
    """Return everything stored about the arm with this key, as the arm with this number. None has no outcomes."""
    lost = schema.lost
    with store.connect() as connection:
        outcomes = store.written.outcomes(arm, partial(_counts, connection, arm)) or _read(connection, arm)
        return replace(
            outcomes,
            judge_texts=_load_texts(
                connection, arm, sorted(name for name in outcomes.labels if name.endswith((HUMAN, ORDERS, VOTES)))
            ),
            lost=[
                Lost(Unit(row.position, 0, number, row.epoch), row.metric or None, row.reason, row.detail or "")
                for row in connection.execute(select(lost).where(lost.c.arm == arm))
            ],
        )


def _counts(connection: Connection, arm: int | None) -> tuple[int, int]:
    """Return how many replies and observations of an arm are stored."""
    replies, observations = (
        connection.execute(select(func.count()).select_from(table).where(table.c.arm == arm)).scalar_one()
        for table in (schema.replies, schema.observations)
    )
    return replies, observations


def _read(connection: Connection, arm: int | None) -> ArmOutcomes:
    """Return an arm's outcomes without lost values and texts."""
    replies, observations = schema.replies, schema.observations
    units = connection.execute(_unit_query(replies).where(replies.c.arm == arm))
    positions, repeats, failures, skipped = read_columns(units, 4)
    of_arm = select(observations.c.metric).where(observations.c.arm == arm)
    return ArmOutcomes(
        positions=positions,
        repeats=repeats,
        failures=failures,
        skipped=skipped,
        scores=_scores(connection, arm, _metrics(connection, of_arm)),
        labels=frozenset(_metrics(connection, of_arm.where(observations.c.label.is_not(None)))),
        lost=[],
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
    return {position: text or detail or "" for position, text, detail in store.rows(query)}


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
    with store.connect() as connection:
        positions, places, texts = read_columns(connection.execute(query), 3)
    return {(position, place): text or "" for position, place, text in zip(positions, places, texts, strict=True)}


def inapplicable_reasons(store: RunStore, experiment: int, number: int) -> dict[str, str]:
    """Return, for each metric with inapplicable samples in an arm, the reason on one of them."""
    table, arms = schema.observations, schema.arms
    query = (
        select(table.c.metric, func.min(table.c.reason))
        .join(arms, arms.c.id == table.c.arm)
        .where(of_arm(experiment, number), table.c.value.is_(None), table.c.label.is_(None))
        .group_by(table.c.metric)
    )
    return {metric: reason or "" for metric, reason in store.rows(query)}


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
    return {(position, repeat): label for position, repeat, label in store.rows(query)}


def _unit_query(replies: Table) -> Select[Any]:
    return select(replies.c.position, replies.c.epoch, replies.c.failure, replies.c.skipped)


def _scores(connection: Any, arm: int | None, metrics: Iterable[str]) -> dict[str, ScoreColumns]:
    table = schema.observations
    scores = {}
    for metric in metrics:
        query = select(table.c.position, table.c.epoch, table.c.value, table.c.is_bool)
        rows = connection.execute(query.where(table.c.arm == arm, table.c.metric == metric, table.c.label.is_(None)))
        positions, repeats, values, is_bool = read_columns(rows, 4)
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


def read_columns(rows: Result[Any], width: int) -> Sequence[Any]:
    """Return the columns of a result. Rows are read in parts: all rows of a large arm would double the program's memory."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for part in rows.partitions(_PART):
        for column, values in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(values)
    return columns


def lost_values(store: RunStore, run: str) -> frozenset[tuple[Any, ...]]:
    """Return nodeid, number of the arm, position, epoch and metric (empty: the whole reply) of all that a run has lost."""
    experiments, arms, lost = schema.experiments, schema.arms, schema.lost
    columns = (experiments.c.nodeid, arms.c.number, lost.c.position, lost.c.epoch, lost.c.metric)
    query = (
        select(*columns)
        .join(arms, arms.c.id == lost.c.arm)
        .join(experiments, experiments.c.id == arms.c.experiment)
        .where(experiments.c.run == run)
    )
    return frozenset(map(tuple, store.rows(query)))
