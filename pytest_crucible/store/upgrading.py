"""Upgrades a run store in place, by adding what later formats and features have added."""

from __future__ import annotations

from sqlalchemy import Connection, Table, inspect, select, update
from sqlalchemy.schema import Column, CreateColumn

from pytest_crucible.store.schema import ADDED, FORMAT, feature_tables, metadata, store_format


def upgrade(connection: Connection) -> None:
    """Add missing tables and columns, within the transaction. One of several processes does it; the others find them."""
    version = connection.execute(select(store_format.c.version).with_for_update()).scalar_one()
    for additions in ADDED[version - 1 :]:
        for addition in additions:
            _add(connection, addition)
    metadata.create_all(connection, feature_tables())
    connection.execute(update(store_format).values(version=max(version, FORMAT)))


def _add(connection: Connection, addition: Table | Column[object]) -> None:
    """Add a table or column, unless it exists: two unreleased versions may both have added it, each as its own format."""
    if isinstance(addition, Table):
        addition.create(connection, checkfirst=True)
    elif addition.name not in {column["name"] for column in inspect(connection).get_columns(addition.table.name)}:
        definition = CreateColumn(addition).compile(dialect=connection.dialect)
        table = connection.dialect.identifier_preparer.format_table(addition.table)
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {definition}")
