"""The tables of the model registry in the run store, which every store has."""

from __future__ import annotations

from pytest_crucible.store.schema import LONGEST_TAG
from pytest_crucible.store.table import Column, Table

# A registered version never changes: its state is in the log.
model_versions = Table(
    "model_versions",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("model", f"VARCHAR({LONGEST_TAG})", required=True),
        # From 1, in the order of registration.
        Column("number", "INTEGER", required=True),
        # The SHA-256 of identity and parameters: an adapter that is registered again has the same number.
        Column("key", "VARCHAR(64)", required=True),
        # JSON as it was hashed: adapter table, identity, weights, lineage.
        Column("body", "TEXT", required=True),
    ),
    unique=(("model", "number"), ("model", "key")),
)

# Only grows. Each row's digest covers the row before, so that a changed row does not match.
registry_log = Table(
    "registry_log",
    (
        # From 1, without gaps.
        Column("number", "INTEGER", key=True),
        # JSON as it was hashed.
        Column("body", "TEXT", required=True),
        Column("digest", "VARCHAR(64)", required=True),
    ),
)

# The last row of the log. A transition replaces the row that it has read: of two at once, one finds it and wins.
registry_head = Table(
    "registry_head",
    (
        Column("id", "INTEGER", key=True),
        Column("number", "INTEGER", required=True),
        Column("digest", "VARCHAR(64)", required=True),
    ),
)

TABLES = (model_versions, registry_log, registry_head)
