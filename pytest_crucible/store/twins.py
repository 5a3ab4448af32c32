"""The twins of samples, read from the run store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore


def samples_without_twin(store: RunStore, sha256: str) -> Mapping[int, str]:
    """Return the positions of the samples that a variant does not apply to, each with the reason."""
    table = schema.twins
    query = select(table.c.position, table.c.reason).where(table.c.variant == sha256, table.c.reason.is_not(None))
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row.position: row.reason for row in connection.execute(query)}


def load_twins(store: RunStore, sha256: str, position: int | None = None) -> Mapping[int, Mapping[str, Any]]:
    """Return input, expected, reason and facts of a variant's twins by position: of all samples, or of one."""
    table = schema.twins
    query = select(table).where(table.c.variant == sha256)
    if position is not None:
        query = query.where(table.c.position == position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row["position"]: dict(row) for row in connection.execute(query).mappings()}
