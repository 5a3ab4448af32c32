"""Bulk inserts: SQLAlchemy compiles the statement, the driver runs it.

SQLAlchemy takes longer to bind one row of an executemany than SQLite takes to store it. A compiled statement that goes to the
driver avoids that: https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Connection.exec_driver_sql
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Table
from sqlalchemy.dialects import registry

from pytest_crucible.store.engine import insert_or_ignore, insert_or_replace

Row = Mapping[str, Any]

# The sqlite3 module releases Python's lock for each statement, and then waits to get it back: fewer statements, fewer waits.
ROWS_PER_STATEMENT = 20
"""Rows that one INSERT of SQLite has."""


def insert_many(connection: Connection, table: Table, rows: Sequence[Row], *, over: bool) -> int:
    """Insert rows, all with the same columns, and return how many were new or, with `over`, have replaced stored ones.

    Without `over` a row whose key exists is left unchanged.
    """
    dialect, names = f"{connection.dialect.name}.{connection.dialect.driver}", tuple(rows[0])
    plain = _with_json_as_text(table, rows)
    statement, by_place = _compile(dialect, table, names, over, 1)
    if by_place is None:
        return connection.exec_driver_sql(statement, plain).rowcount
    values = list(map(itemgetter(*by_place), plain))
    whole = len(values) - len(values) % ROWS_PER_STATEMENT
    inserted = 0
    if whole:
        many = [
            tuple(chain.from_iterable(values[at : at + ROWS_PER_STATEMENT]))
            for at in range(0, whole, ROWS_PER_STATEMENT)
        ]
        many_at_once = _compile(dialect, table, names, over, ROWS_PER_STATEMENT)[0]
        inserted += connection.exec_driver_sql(many_at_once, many).rowcount
    if whole < len(values):
        inserted += connection.exec_driver_sql(statement, values[whole:]).rowcount
    return inserted


# The key is the dialect's name: each engine has a dialect of its own, and would compile all statements again.
@functools.lru_cache
def _compile(name: str, table: Table, names: tuple[str, ...], over: bool, rows: int) -> tuple[str, list[str] | None]:
    """Return the statement and the order of its values; None if the driver takes values by name."""
    dialect: Dialect = registry.load(name)()
    insert = (insert_or_replace if over else insert_or_ignore)(dialect, table)
    if rows > 1:
        insert = insert.values([dict.fromkeys(names)] * rows)
    compiled = insert.compile(dialect=dialect, column_keys=list(names))
    return str(compiled), compiled.positiontup


def _with_json_as_text(table: Table, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows with JSON values as text. An object that several rows share is encoded once."""
    for name in [name for name in rows[0] if isinstance(table.c[name].type, JSON)]:
        objects = {id(row[name]): row[name] for row in rows}
        if set(objects) != {id(None)}:
            texts = {key: None if value is None else json.dumps(value) for key, value in objects.items()}
            rows = [{**row, name: texts[id(row[name])]} for row in rows]
    return rows
