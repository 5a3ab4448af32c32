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

TABLES = (trace_events,)
