"""Many rows at once: SQLAlchemy writes the statement, the driver runs it.

What SQLAlchemy does to bind each row of an executemany takes longer than SQLite does to store it; a statement that is compiled
goes around that, in the database's own words: https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Connection.exec_driver_sql
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, Connection, Table

from pytest_crucible.store.opening import insert_once, insert_over


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, over: bool) -> None:
    """Insert rows, all with the same columns. One that is there already stays as it is, or with `over` is replaced."""
    insert = (insert_over if over else insert_once)(connection.engine, table)
    compiled = insert.compile(dialect=connection.dialect, column_keys=list(rows[0]))
    plain = _with_json_as_text(table, rows)
    by_place = compiled.positiontup
    given = plain if by_place is None else [tuple([row[name] for name in by_place]) for row in plain]
    connection.exec_driver_sql(str(compiled), given)


def _with_json_as_text(table: Table, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    names = [name for name in rows[0] if isinstance(table.c[name].type, JSON)]
    if not names:
        return list(rows)
    return [{**row, **{name: _text(row[name]) for name in names}} for row in rows]


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
