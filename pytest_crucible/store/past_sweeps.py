"""Reads the plan of the latest earlier sweep, which a resumed run repeats."""

from __future__ import annotations

from sqlalchemy import select

from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import experiments


def latest_plan(store: RunStore, nodeid: str, *, before: str) -> tuple[str, Plan] | None:
    """Return run and plan of the experiment in the latest run other than `before`; None without one. Raises StoreError."""
    table = experiments.c
    query = select(table.run, table.plan).where(table.nodeid == nodeid, table.run != before).order_by(table.id.desc())
    with explain_errors(store.location), store.engine.connect() as connection:
        row = connection.execute(query.limit(1)).first()
    return None if row is None else (row.run, from_plain(Plan, row.plan))
