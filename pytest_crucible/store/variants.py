"""Variants of an arm: they have rows of their own in `arms`, which readers join to their arm.

A variant is a form of the prompt, of the original samples (twin 0) or of their twins in a named variant (twin 1, 2 ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from pytest_crucible.records import ArmOutcomes, Draws, Lost, ScoreColumns
from pytest_crucible.store import schema


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


def variant_keys(connection: Connection, experiment: int, number: int, twin: int = 0) -> list[tuple[int, int]]:
    """Return (key, variant) of each row of an arm, in the order of the prompts; empty for an arm that never began.

    Variants of a twin are counted from 0, as those of the original samples.
    """
    arms, named = schema.arms, schema.variants
    same = (named.c.experiment == arms.c.experiment) & (named.c.number == arms.c.variant)
    query = select(arms.c.id, func.coalesce(named.c.prompt, 0)).select_from(arms.outerjoin(named, same))
    query = query.where(of_arm(experiment, number, twin)).order_by(arms.c.number)
    return [(key, prompt) for key, prompt in connection.execute(query)]


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
