"""Reads the choosing halves of sweeps: of this run, and of the latest earlier one, which a resumed run repeats."""

from __future__ import annotations

from sqlalchemy import select

from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import experiments


def latest_plan(store: RunStore, nodeid: str, *, before: str) -> tuple[str, Plan] | None:
    """Return run and plan of the experiment in the latest run other than `before`; None without one. Raises StoreError."""
    table = experiments.c
    query = select(table.run, table.plan).where(table.nodeid == nodeid, table.run != before).order_by(table.id.desc())
    with explain_errors(store.location), store.engine.connect() as connection:
        row = connection.execute(query.limit(1)).first()
    return None if row is None else (row.run, from_plain(Plan, row.plan))


def load_choosing_half(store: RunStore, run: str, nodeid: str) -> StoredExperiment | None:
    """Return a run's experiment of that name; None where it has not begun. Raises StoreError."""
    table = experiments.c
    query = select(table.id).where(table.run == run, table.nodeid == nodeid)
    with explain_errors(store.location), store.engine.connect() as connection:
        key = connection.execute(query).scalar()
    return load_experiment(store, key) if key is not None and store.has_arms(key) else None
