"""Reads an arm's outcomes back, and the texts of its replies.

Variants of an arm have rows of their own in `arms`, which readers join to their arm. A variant is a form of the prompt, of the
original samples (twin 0) or of their twins in a named variant (twin 1, 2 ...).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_crucible.records import HUMAN, ORDERS, VOTES, ArmOutcomes, Draws, Lost, ScoreColumns, Unit
from pytest_crucible.records.outcomes import join_outcomes, move_units
from pytest_crucible.store.database import Connection, Cursor
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text


def of_arm(twin: int = 0) -> str:
    """Return the SQL condition for the rows of `arms` that are an arm on the original samples, or on twins with this number.

    Its values are :experiment and :number.
    """
    original = "(SELECT id FROM arms WHERE experiment = :experiment AND number = :number)"
    variants = f"(SELECT number FROM variants WHERE experiment = :experiment AND twin = {twin:d})"
    rows = f"arms.original = {original} AND arms.variant IN {variants}"
    # Only the experiment has an index.
    return f"arms.experiment = :experiment AND ({rows if twin else f'arms.id = {original} OR {rows}'})"


def place_of(table: str, draws: Draws, twin: int = 0) -> str:
    """Return the SQL for the place of a row's reply in the table of replies to a sample or a twin, in a query that joins `arms`."""
    repeat = f"{table}.epoch"
    if draws.prompts == 1:
        return repeat
    return f"(COALESCE(arms.variant, 0) - {twin * draws.prompts:d}) * {draws.size // draws.prompts:d} + {repeat}"


def variant_keys(store: RunStore, experiment: int, number: int, twin: int = 0) -> list[tuple[int, int]]:
    """Return (key, variant) of each row of an arm, in the order of the prompts; empty for an arm that never began.

    Variants of a twin are counted from 0, as those of the original samples.
    """
    query = f"""
        SELECT arms.id, COALESCE(variants.prompt, 0) FROM arms
        LEFT JOIN variants ON variants.experiment = arms.experiment AND variants.number = arms.variant
        WHERE {of_arm(twin)} ORDER BY arms.number
    """
    return list(store.rows(query, experiment=experiment, number=number))


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
    lost = "SELECT position, epoch, metric, reason, detail FROM lost WHERE arm = :arm"
    with store.connect() as connection:
        outcomes = store.written.outcomes(arm, partial(_counts, connection, arm)) or _read(connection, arm)
        texts = sorted(name for name in outcomes.labels if name.endswith((HUMAN, ORDERS, VOTES)))
        return replace(
            outcomes,
            judge_texts=_load_texts(connection, arm, texts),
            lost=[
                Lost(Unit(position, 0, number, repeat), metric or None, reason, detail or "")
                for position, repeat, metric, reason, detail in connection.execute(lost, arm=arm)
            ],
        )


def _counts(connection: Connection, arm: int | None) -> tuple[int, int]:
    """Return how many replies and observations of an arm are stored."""
    replies, observations = (
        connection.scalar(f"SELECT COUNT(*) FROM {table} WHERE arm = :arm", arm=arm)
        for table in ("replies", "observations")
    )
    return replies, observations


def _read(connection: Connection, arm: int | None) -> ArmOutcomes:
    """Return an arm's outcomes without lost values and texts."""
    units = connection.execute("SELECT position, epoch, failure, skipped FROM replies WHERE arm = :arm", arm=arm)
    positions, repeats, failures, skipped = read_into(units, (array("i"), array("i"), [], []))
    metrics = "SELECT DISTINCT metric FROM observations WHERE arm = :arm"
    return ArmOutcomes(
        positions=positions,
        repeats=repeats,
        failures=failures,
        skipped=list(map(bool, skipped)),
        scores=_scores(connection, arm, sorted(connection.scalars(metrics, arm=arm))),
        labels=frozenset(connection.scalars(f"{metrics} AND label IS NOT NULL", arm=arm)),
        lost=[],
    )


def reply_texts(store: RunStore, experiment: int, number: int, positions: Sequence[int]) -> dict[int, str]:
    """Return an arm's first reply to each of a few samples, by position."""
    query = f"""
        SELECT replies.position, {stored_text("replies")}, replies.detail
        FROM replies JOIN arms ON arms.id = replies.arm
        WHERE arms.experiment = :experiment AND arms.number = :number
        AND replies.position IN (:positions) AND replies.epoch = 0
    """
    rows = store.rows(query, experiment=experiment, number=number, positions=positions)
    return {position: text or detail or "" for position, text, detail in rows}


def all_reply_texts(
    store: RunStore, experiment: int, number: int, draws: Draws, twin: int = 0
) -> dict[tuple[int, int], str]:
    """Return the texts of an arm's replies to all samples, or to their twins, by position and place; failed ones have none."""
    query = f"""
        SELECT replies.position, {place_of("replies", draws, twin)}, {stored_text("replies")}
        FROM replies JOIN arms ON arms.id = replies.arm
        WHERE {of_arm(twin)} AND replies.failure IS NULL AND NOT replies.skipped
    """
    with store.connect() as connection:
        positions, places, texts = read_columns(connection.execute(query, experiment=experiment, number=number), 3)
    return {(position, place): text or "" for position, place, text in zip(positions, places, texts, strict=True)}


def inapplicable_reasons(store: RunStore, experiment: int, number: int) -> dict[str, str]:
    """Return, for each metric with inapplicable samples in an arm, the reason on one of them."""
    query = f"""
        SELECT observations.metric, MIN(observations.reason)
        FROM observations JOIN arms ON arms.id = observations.arm
        WHERE {of_arm()} AND observations.value IS NULL AND observations.label IS NULL
        GROUP BY observations.metric
    """
    return {metric: reason or "" for metric, reason in store.rows(query, experiment=experiment, number=number)}


def load_texts(
    store: RunStore, experiment: int, number: int, metric: str, draws: Draws | None = None
) -> dict[tuple[int, int], str]:
    """Return the values of a text metric in an arm by (position, repeat)."""
    query = f"""
        SELECT observations.position, {place_of("observations", draws or Draws())}, observations.label
        FROM observations JOIN arms ON arms.id = observations.arm
        WHERE {of_arm()} AND observations.metric = :metric AND observations.label IS NOT NULL
    """
    rows = store.rows(query, experiment=experiment, number=number, metric=metric)
    return {(position, repeat): label for position, repeat, label in rows}


def _scores(connection: Connection, arm: int | None, metrics: Iterable[str]) -> dict[str, ScoreColumns]:
    query = """
        SELECT position, epoch, value, is_bool FROM observations
        WHERE arm = :arm AND metric = :metric AND label IS NULL
    """
    scores = {}
    for metric in metrics:
        rows = connection.execute(query, arm=arm, metric=metric)
        positions, repeats, values, is_bool = read_into(rows, (array("i"), array("i"), [], []))
        scores[metric] = ScoreColumns(
            positions=positions,
            repeats=repeats,
            values=values if None in values else array("d", values),
            is_bool=bytes(map(bool, is_bool)),
        )
    return scores


def _load_texts(
    connection: Connection, arm: int | None, metrics: Iterable[str]
) -> dict[str, list[tuple[int, int, str]]]:
    query = """
        SELECT position, epoch, label FROM observations
        WHERE arm = :arm AND metric = :metric AND label IS NOT NULL ORDER BY position, epoch
    """
    return {name: connection.execute(query, arm=arm, metric=name).fetchall() for name in metrics}


def read_columns(rows: Cursor, width: int) -> Sequence[list[Any]]:
    """Return the columns of a result. Rows are read in parts: all rows of a large arm would double the program's memory."""
    return read_into(rows, [[] for _ in range(width)])


class SharedTexts(list[Any]):
    """A column of texts, or NULL, in which equal texts are one object: few replies end in another way than most."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Any, Any] = {}

    def extend(self, values: Iterable[Any]) -> None:
        if len(self._known) > _MOST_SHARED:
            self._known.clear()
        many = tuple(values)
        super().extend(map(self._known.setdefault, many, many))


_MOST_SHARED = 10_000
"""Texts that are looked for: where most differ, the others are found seldom, and would take the memory of all."""


def read_into(rows: Cursor, columns: Sequence[Any]) -> Sequence[Any]:
    """Return the columns of a result in lists or arrays, in which a number takes a fifth of the memory."""
    while part := rows.fetchmany(_PART):
        for column, values in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(values)
    return columns


def lost_values(store: RunStore, run: str) -> frozenset[tuple[Any, ...]]:
    """Return nodeid, number of the arm, position, epoch and metric (empty: the whole reply) of all that a run has lost."""
    query = """
        SELECT experiments.nodeid, arms.number, lost.position, lost.epoch, lost.metric FROM lost
        JOIN arms ON arms.id = lost.arm JOIN experiments ON experiments.id = arms.experiment
        WHERE experiments.run = :run
    """
    return frozenset(store.rows(query, run=run))
