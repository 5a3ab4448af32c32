"""Reads the plan of the latest earlier sweep, which a resumed run repeats, and the replies of a member."""

from __future__ import annotations

from sqlalchemy import select

from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import arms, experiments


def latest_plan(store: RunStore, nodeid: str, *, before: str) -> tuple[str, Plan] | None:
    """Return run and plan of the experiment in the latest run other than `before`; None without one. Raises StoreError."""
    table = experiments.c
    query = select(table.run, table.plan).where(table.nodeid == nodeid, table.run != before).order_by(table.id.desc())
    with explain_errors(store.location), store.engine.connect() as connection:
        row = connection.execute(query.limit(1)).first()
    return None if row is None else (row.run, from_plain(Plan, row.plan))


def find_member(store: RunStore, run: str, nodeid: str, name: str, variant: int) -> tuple[int, str] | None:
    """Return key and run of a member's replies in the choosing half of this name; None without any. Raises StoreError."""
    of = arms.alias()
    original = (
        select(arms.c.id)
        .join(experiments, experiments.c.id == arms.c.experiment)
        .where(experiments.c.run == run, experiments.c.nodeid == nodeid, arms.c.name == name, arms.c.variant.is_(None))
    )
    query = (
        select(of.c.id).where(of.c.original == original.scalar_subquery(), of.c.variant == variant)
        if variant
        else original
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        key = connection.execute(query).scalar()
    return None if key is None else (key, run)
