"""Decisions that a run makes while it runs. Each is stored before it takes effect, so that a resumed run makes the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from pytest_crucible.store.engine import explain_errors, insert_or_ignore
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import decisions


def add_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Store a decision, unless it was made before; return the stored one. Raises StoreError."""
    row = {"run": run, "subject": subject, "number": number, "body": dict(body)}
    with explain_errors(store.location), store.engine.begin() as connection:
        connection.execute(insert_or_ignore(store.engine.dialect, decisions), [row])
    return load_decisions(store, run, subject)[number]


def set_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> None:
    """Replace the body of a decision that is stored, such as a sign of life. Raises StoreError."""
    table = decisions.c
    place = (table.run == run, table.subject == subject, table.number == number)
    with explain_errors(store.location), store.engine.begin() as connection:
        connection.execute(update(decisions).where(*place).values(body=dict(body)))


def load_decisions(store: RunStore, run: str, subject: str) -> dict[int, dict[str, Any]]:
    """Return the decisions of a run on a subject by their numbers, in order. Raises StoreError."""
    table = decisions.c
    query = select(table.number, table.body).where(table.run == run, table.subject == subject).order_by(table.number)
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row.number: row.body for row in connection.execute(query)}


def decision_subjects(store: RunStore, run: str, prefix: str) -> list[str]:
    """Return the subjects of a run's decisions that begin with a prefix. Raises StoreError."""
    table = decisions.c
    query = select(table.subject).where(table.run == run, table.subject.startswith(prefix, autoescape=True)).distinct()
    with explain_errors(store.location), store.engine.connect() as connection:
        return sorted(connection.execute(query).scalars())


def copy_decisions(store: RunStore, source: str, run: str, subject: str) -> None:
    """Copy the decisions of another run on a subject, unless this run has made them. Raises StoreError."""
    rows = [
        {"run": run, "subject": subject, "number": number, "body": body}
        for number, body in load_decisions(store, source, subject).items()
    ]
    if rows:
        with explain_errors(store.location), store.engine.begin() as connection:
            connection.execute(insert_or_ignore(store.engine.dialect, decisions), rows)
