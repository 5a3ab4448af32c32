"""Many rows at once: SQLAlchemy writes the statement, the driver runs it.

What SQLAlchemy does to bind each row of an executemany takes longer than SQLite does to store it; a statement that is compiled
goes around that, in the database's own words: https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Connection.exec_driver_sql
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Table

from pytest_crucible.store.opening import insert_once, insert_over

Row = Mapping[str, Any]

TOGETHER = 20
"""Rows to a statement of SQLite. It leaves Python's lock for each statement, and has to wait to get it back."""


def insert_many(connection: Connection, table: Table, rows: Sequence[Row], *, over: bool) -> None:
    """Insert rows, all with the same columns. One that is there already stays as it is, or with `over` is replaced."""
    dialect, names = connection.dialect, tuple(rows[0])
    plain = _with_json_as_text(table, rows)
    statement, by_place = _compiled(dialect, table, names, over, 1)
    if by_place is None:
        connection.exec_driver_sql(statement, plain)
        return
    values = list(map(itemgetter(*by_place), plain))
    whole = len(values) - len(values) % TOGETHER
    if whole:
        many = [tuple(chain.from_iterable(values[at : at + TOGETHER])) for at in range(0, whole, TOGETHER)]
        connection.exec_driver_sql(_compiled(dialect, table, names, over, TOGETHER)[0], many)
    if whole < len(values):
        connection.exec_driver_sql(statement, values[whole:])


@functools.lru_cache
def _compiled(
    dialect: Dialect, table: Table, names: tuple[str, ...], over: bool, rows: int
) -> tuple[str, list[str] | None]:
    """The statement, and the order in which it wants the values, unless it wants them by name."""
    insert = (insert_over if over else insert_once)(dialect, table)
    if rows > 1:
        insert = insert.values([dict.fromkeys(names)] * rows)
    compiled = insert.compile(dialect=dialect, column_keys=list(names))
    return str(compiled), compiled.positiontup


def _with_json_as_text(table: Table, rows: Sequence[Row]) -> Sequence[Row]:
    """An object that several rows have in common is written once."""
    for name in [name for name in rows[0] if isinstance(table.c[name].type, JSON)]:
        objects = {id(row[name]): row[name] for row in rows}
        texts = {key: None if value is None else json.dumps(value) for key, value in objects.items()}
        rows = [{**row, name: texts[id(row[name])]} for row in rows]
    return rows
