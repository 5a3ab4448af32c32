"""Decisions that a run makes while it runs, each stored before it takes effect, and the plans of earlier sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import arms, decisions, experiments


def add_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Store a decision, unless it was made before; return the stored one. Raises StoreError."""
    row = {"run": run, "subject": subject, "number": number, "body": dict(body)}
    store.insert_once(decisions, row)
    return load_decisions(store, run, subject)[number]


def set_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> None:
    """Replace the body of a decision that is stored, such as a sign of life. Raises StoreError."""
    table = decisions.c
    place = (table.run == run, table.subject == subject, table.number == number)
    store.execute(update(decisions).where(*place).values(body=dict(body)))


def load_decisions(store: RunStore, run: str, subject: str) -> dict[int, dict[str, Any]]:
    """Return the decisions of a run on a subject by their numbers, in order. Raises StoreError."""
    table = decisions.c
    query = select(table.number, table.body).where(table.run == run, table.subject == subject).order_by(table.number)
    return {row.number: row.body for row in store.rows(query)}


def decision_subjects(store: RunStore, run: str, prefix: str) -> list[str]:
    """Return the subjects of a run's decisions that begin with a prefix. Raises StoreError."""
    table = decisions.c
    query = select(table.subject).where(table.run == run, table.subject.startswith(prefix, autoescape=True)).distinct()
    return sorted(store.scalars(query))


def copy_decisions(store: RunStore, source: str, run: str, subject: str) -> None:
    """Copy the decisions of another run on a subject, unless this run has made them. Raises StoreError."""
    rows = [
        {"run": run, "subject": subject, "number": number, "body": body}
        for number, body in load_decisions(store, source, subject).items()
    ]
    if rows:
        store.insert_once(decisions, rows)


def latest_plan(store: RunStore, nodeid: str, *, before: str) -> tuple[str, Plan] | None:
    """Return run and plan of the experiment in the latest run other than `before`; None without one. Raises StoreError."""
    table = experiments.c
    query = select(table.run, table.plan).where(table.nodeid == nodeid, table.run != before).order_by(table.id.desc())
    row = store.first(query.limit(1))
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
    key = store.scalar(query)
    return None if key is None else (key, run)
