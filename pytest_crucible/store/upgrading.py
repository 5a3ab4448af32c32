"""Bringing a run store of an earlier format to this one, in place: what later formats have added is added to it."""

from __future__ import annotations

from sqlalchemy import Connection, Table, inspect, select, update
from sqlalchemy.schema import Column, CreateColumn

from pytest_crucible.store.schema import ADDED, FORMAT, store_format


def upgrade(connection: Connection) -> None:
    """Add what a store lacks, within the transaction. Of several processes one does it, and the others find it done."""
    found = connection.execute(select(store_format.c.version).with_for_update()).scalar_one()
    for additions in ADDED[found - 1 :]:
        for one in additions:
            _add(connection, one)
    connection.execute(update(store_format).values(version=max(found, FORMAT)))


def _add(connection: Connection, one: Table | Column[object]) -> None:
    """Unless it is there: then two versions that are still being written have each called it a format of their own."""
    if isinstance(one, Table):
        one.create(connection, checkfirst=True)
    elif one.name not in {column["name"] for column in inspect(connection).get_columns(one.table.name)}:
        said = CreateColumn(one).compile(dialect=connection.dialect)
        table = connection.dialect.identifier_preparer.format_table(one.table)
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {said}")
