"""Finds the lost values of a run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore


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
    with explain_errors(store.location), store.engine.connect() as connection:
        return frozenset(map(tuple, connection.execute(query)))
