"""The tables of the registry in the run store."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text, UniqueConstraint

from pytest_crucible.store.schema import LONGEST_TAG, metadata

# A registered version never changes: its state is in the log.
model_versions = Table(
    "model_versions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("model", String(LONGEST_TAG), nullable=False),
    # From 1, in the order of registration.
    Column("number", Integer, nullable=False),
    # The SHA-256 of identity and parameters: an adapter that is registered again has the same number.
    Column("key", String(64), nullable=False),
    # JSON as it was hashed: adapter table, identity, weights, lineage.
    Column("body", Text, nullable=False),
    UniqueConstraint("model", "number"),
    UniqueConstraint("model", "key"),
)

# Only grows. Each row's digest covers the row before, so that a changed row does not match.
registry_log = Table(
    "registry_log",
    metadata,
    # From 1, without gaps.
    Column("number", Integer, primary_key=True, autoincrement=False),
    # JSON as it was hashed.
    Column("body", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)

# The last row of the log. A transition replaces the row that it has read: of two at once, one finds it and wins.
registry_head = Table(
    "registry_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
)

TABLES = (model_versions, registry_log, registry_head)
