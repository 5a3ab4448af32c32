"""The manifest of Parquet parts: a table of the run store. Every session creates it, and few have parts."""

from __future__ import annotations

from pytest_crucible.store.table import Column, Table

PARTS = Table(
    "parts",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("run", "VARCHAR(32)", required=True),
        Column("of_table", "VARCHAR(63)", required=True),
        # The directory or address of all results, without credentials; `path` is below it.
        Column("root", "TEXT", required=True),
        Column("path", "VARCHAR(200)", required=True),
        Column("row_count", "INTEGER", required=True),
        Column("bytes", "BIGINT", required=True),
        Column("sha256", "VARCHAR(64)", required=True),
        # The lowest and highest position of a sample; null in tables that are not about samples.
        Column("first_position", "INTEGER"),
        Column("last_position", "INTEGER"),
    ),
    unique=(("root", "path"),),
    indexes=(("ix_parts_run", "run"),),
)
