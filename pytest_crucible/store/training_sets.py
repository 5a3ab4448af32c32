"""Stores the origins of training files, under the SHA-256 of the file."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pytest_crucible.records.process_secrets import hide_encoded
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors, insert_or_ignore
from pytest_crucible.store.runs import RunStore


def add_training_set(
    store: RunStore, sha256: str, *, name: str, created: str, card: Mapping[str, Any], origins: str
) -> None:
    """Store the card and the origins of a file, once: equal files have equal rows, and the first export counts."""
    # Compressed, it would pass where all other texts are redacted.
    body = zlib.compress(hide_encoded(origins, store.hide).encode("utf-8"))
    row = {"sha256": sha256, "name": name, "created": created, "card": dict(card), "origins": body}
    with explain_errors(store.location), store.engine.begin() as connection:
        connection.execute(insert_or_ignore(store.engine.dialect, schema.training_sets), row)


def find_training_set(store: RunStore, sha256: str) -> tuple[Mapping[str, Any], str] | None:
    """Return the card and the origins (JSON Lines) of a file with this hash; None for a file that was not exported here."""
    table = schema.training_sets
    query = select(table.c.card, table.c.origins).where(table.c.sha256 == sha256)
    with explain_errors(store.location), store.engine.connect() as connection:
        row = connection.execute(query).first()
    return None if row is None else (row.card, zlib.decompress(row.origins).decode("utf-8"))
