"""Decisions that a run makes while it runs, each stored before it takes effect, and the plans of earlier sweeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import decisions


def add_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Store a decision, unless it was made before; return the stored one. Raises StoreError."""
    row = {"run": run, "subject": subject, "number": number, "body": dict(body)}
    store.insert(decisions, [row])
    return load_decisions(store, run, subject)[number]


def set_decision(store: RunStore, run: str, subject: str, number: int, body: Mapping[str, Any]) -> None:
    """Replace the body of a decision that is stored, such as a sign of life. Raises StoreError."""
    of, replaced = {"run": run, "subject": subject, "number": number}, json.dumps(dict(body))
    where = "run = :run AND subject = :subject AND number = :number"
    store.update(decisions, "body = :body", where, **of, body=replaced)


def load_decisions(store: RunStore, run: str, subject: str) -> dict[int, dict[str, Any]]:
    """Return the decisions of a run on a subject by their numbers, in order. Raises StoreError."""
    query = "SELECT number, body FROM decisions WHERE run = :run AND subject = :subject ORDER BY number"
    return {number: from_json(body) for number, body in store.rows(query, run=run, subject=subject)}


def decision_subjects(store: RunStore, run: str, prefix: str) -> list[str]:
    """Return the subjects of a run's decisions that begin with a prefix. Raises StoreError."""
    query = "SELECT DISTINCT subject FROM decisions WHERE run = :run"
    return sorted(subject for subject in store.scalars(query, run=run) if subject.startswith(prefix))


def copy_decisions(store: RunStore, source: str, run: str, subject: str) -> None:
    """Copy the decisions of another run on a subject, unless this run has made them. Raises StoreError."""
    rows = [
        {"run": run, "subject": subject, "number": number, "body": body}
        for number, body in load_decisions(store, source, subject).items()
    ]
    if rows:
        store.insert(decisions, rows)


def latest_plan(store: RunStore, nodeid: str, *, before: str) -> tuple[str, Plan] | None:
    """Return run and plan of the experiment in the latest run other than `before`; None without one. Raises StoreError."""
    query = "SELECT run, plan FROM experiments WHERE nodeid = :nodeid AND run <> :before ORDER BY id DESC LIMIT 1"
    row = store.first(query, nodeid=nodeid, before=before)
    return None if row is None else (row[0], from_plain(Plan, from_json(row[1])))


def find_member(store: RunStore, run: str, nodeid: str, name: str, variant: int) -> tuple[int, str] | None:
    """Return key and run of a member's replies in the choosing half of this name; None without any. Raises StoreError."""
    original = """
        SELECT arms.id FROM arms JOIN experiments ON experiments.id = arms.experiment
        WHERE experiments.run = :run AND experiments.nodeid = :nodeid AND arms.name = :name AND arms.variant IS NULL
    """
    of_variant = f"SELECT id FROM arms WHERE original = ({original}) AND variant = :variant"
    of = {"run": run, "nodeid": nodeid, "name": name}
    key = store.scalar(of_variant, **of, variant=variant) if variant else store.scalar(original, **of)
    return None if key is None else (key, run)
