"""Variants of an arm: they have rows of their own in `arms`, which readers join to their arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from pytest_crucible.records import ArmOutcomes, Draws, Lost, ScoreColumns
from pytest_crucible.store import schema


def of_arm(experiment: int, number: int) -> ColumnElement[bool]:
    """Return the condition for the rows of `arms` that are an arm of an experiment, on the samples as they are or a variant."""
    arms, first = schema.arms, schema.arms.alias()
    original = select(first.c.id).where(first.c.experiment == experiment, first.c.number == number).scalar_subquery()
    # Only the experiment has an index.
    return (arms.c.experiment == experiment) & or_(arms.c.id == original, arms.c.original == original)


def place_of(table: Any, draws: Draws) -> ColumnElement[int]:
    """Return the place of a row's reply in the arm's table of replies, for a query that joins `arms`."""
    repeat: ColumnElement[int] = table.c.epoch
    if draws.prompts == 1:
        return repeat
    variant: ColumnElement[int] = func.coalesce(schema.arms.c.variant, 0)
    return variant * (draws.size // draws.prompts) + repeat


def variant_keys(connection: Connection, experiment: int, number: int) -> list[tuple[int, int]]:
    """Return (key, variant) of each row of an arm, the samples as they are first; empty for an arm that never began."""
    arms = schema.arms
    query = select(arms.c.id, func.coalesce(arms.c.variant, 0)).where(of_arm(experiment, number))
    return [(key, variant) for key, variant in connection.execute(query.order_by(arms.c.number))]


def join_variants(parts: Sequence[tuple[int, ArmOutcomes]], draws: Draws) -> ArmOutcomes:
    """Return the outcomes of all variants of an arm as one, repeats numbered over all of them."""
    moved = [_move(answers, draws.place(variant, 0)) for variant, answers in parts]
    names = dict.fromkeys(name for answers in moved for name in answers.scores)
    return ArmOutcomes(
        positions=[position for answers in moved for position in answers.positions],
        repeats=[repeat for answers in moved for repeat in answers.repeats],
        failures=[failure for answers in moved for failure in answers.failures],
        skipped=[skipped for answers in moved for skipped in answers.skipped],
        scores={name: _join([answers.scores[name] for answers in moved if name in answers.scores]) for name in names},
        labels=frozenset(name for answers in moved for name in answers.labels),
        told={
            name: [text for answers in moved for text in answers.told.get(name, ())]
            for name in dict.fromkeys(name for answers in moved for name in answers.told)
        },
        lost=[loss for answers in moved for loss in answers.lost],
    )


def _move(answers: ArmOutcomes, by: int) -> ArmOutcomes:
    if not by:
        return answers
    return replace(
        answers,
        repeats=[repeat + by for repeat in answers.repeats],
        scores={
            name: replace(column, repeats=[repeat + by for repeat in column.repeats])
            for name, column in answers.scores.items()
        },
        told={
            name: [(position, repeat + by, text) for position, repeat, text in texts]
            for name, texts in answers.told.items()
        },
        lost=[_move_loss(loss, by) for loss in answers.lost],
    )


def _move_loss(loss: Lost, by: int) -> Lost:
    return replace(loss, unit=loss.unit._replace(repeat=loss.unit.repeat + by))


def _join(columns: Sequence[ScoreColumns]) -> ScoreColumns:
    return ScoreColumns(
        positions=[position for column in columns for position in column.positions],
        repeats=[repeat for column in columns for repeat in column.repeats],
        values=[value for column in columns for value in column.values],
        is_bool=[flag for column in columns for flag in column.is_bool],
    )
