"""The tables of provenance in the run store, which every store has."""

from __future__ import annotations

from pytest_crucible.store.schema import UNIT_COLUMNS
from pytest_crucible.store.table import Column, Table

# What `pytest_crucible.trace` records while a unit is sent and scored.
trace_events = Table(
    "trace_events",
    (
        *UNIT_COLUMNS,
        # From 1, in the order in which they were recorded.
        Column("number", "INTEGER", key=True),
        # One of `kinds.KINDS`, or a word of the model's own.
        Column("kind", "TEXT", required=True),
        Column("decision", "TEXT", required=True),
        # The alternatives that were rejected; null without any.
        Column("rejected", "JSON"),
        Column("because", "TEXT"),
        # Null: unknown.
        Column("confidence", "FLOAT"),
        # The number of the event within which this one is.
        Column("parent", "INTEGER"),
        # The number of the earlier decision that it replaces.
        Column("revises", "INTEGER"),
        # The names of the stages around it, as `outer/inner`.
        Column("stage", "TEXT"),
        # Whether the model says it of itself.
        Column("is_claim", "BOOLEAN", required=True),
        # How many calls of the reply had been sent before it.
        Column("calls", "INTEGER", required=True),
        # Seconds since 1970.
        Column("at", "FLOAT", required=True),
    ),
    has_rowid=False,
)

# A chain has the commits of one process to one run, or to a dataset or variant that several runs share.
seal_chains = Table(
    "seal_chains",
    (
        # Random, so that no process waits for another.
        Column("id", "BIGINT", key=True),
        # The table that has the owner: runs, samples or twins.
        Column("kind", "VARCHAR(8)", required=True),
        # The id of the run, or the hash of the dataset or variant.
        Column("owner", "VARCHAR(64)", required=True),
        # Seconds since 1970.
        Column("begun", "FLOAT", required=True),
    ),
    indexes=(("seal_chains_by_owner", "owner"),),
)

seals = Table(
    "seals",
    (
        Column("chain", "BIGINT", key=True),
        # From 1, without gaps.
        Column("number", "INTEGER", key=True),
        # Of the seal before it, of the keys, and of each row.
        Column("sha256", "BLOB", required=True),
        # Which rows were added and removed: JSON, compressed by zlib.
        Column("keys", "BLOB", required=True),
        # 3 bytes of the SHA-256 of each added row, and all 32 of each removed one.
        Column("checksums", "BLOB", required=True),
    ),
)

TABLES = (trace_events, seal_chains, seals)
