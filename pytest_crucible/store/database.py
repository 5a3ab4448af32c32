"""A database of runs: one SQL for SQLite and PostgreSQL, through their drivers.

Statements are written in the SQL that both read. Their values are `:name`; a list of values is `IN (:name)`. JSON is stored as text
and returned as text (`from_json`), true and false come back from SQLite as 1 and 0.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from types import ModuleType, NoneType
from typing import Any, Protocol

from pytest_crucible.store.table import RowChange, Table, change_of, postgresql_type

Row = Mapping[str, Any]
Columns = Mapping[str, Sequence[Any]]
BATCH_SIZE = 500
"""Keys of one lookup: fewer than the parameters that any database allows in a statement."""


class Cursor(Protocol):
    """The result of a statement; both drivers have it."""

    rowcount: int
    description: Sequence[Sequence[Any]]

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def fetchmany(self, size: int) -> list[tuple[Any, ...]]: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


def from_json(stored: str | float | None) -> Any:
    """Return the value of a JSON column; None for NULL. SQLite stores a number in it as such: https://sqlite.org/datatype3.html"""
    return json.loads(stored) if isinstance(stored, str) else stored


def json_part(column: str, *path: str | int, is_sqlite: bool) -> str:
    """Return the SQL for a part of a JSON column: a text as it is, anything else as JSON.

    >>> json_part("plan", "arms", 0, is_sqlite=True), json_part("plan", "arms", 0, is_sqlite=False)
    ("JSON_EXTRACT(plan, '$.arms[0]')", "plan #>> '{arms,0}'")
    """
    if is_sqlite:
        # The arrows of newer versions of SQLite are those of PostgreSQL.
        names = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path)
        return f"JSON_EXTRACT({column}, '${names}')"
    return f"{column} #>> '{{{','.join(map(str, path))}}}'"


class CommitListener(Protocol):
    """Receives the changes of each transaction, and enters rows of its own before it is committed."""

    def covers(self, table: Table) -> bool:
        """Return whether changes of a table concern it."""
        ...

    def prepare(self, connection: Connection, change: RowChange) -> Any:
        """Return what to remember of a change until the transaction is committed."""
        ...

    def committing(self, connection: Connection, prepared: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
        """Enter what belongs to these changes, in their transaction, which is committed within the context."""
        ...

    def lacks(self, connection: Connection, table: Table, key: str) -> bool:
        """Return whether nothing was entered for a dataset or variant, although it is stored: by an earlier version."""
        ...

    def forget(self, connection: Connection, table: Table, key: str) -> None:
        """Remove what belongs to a run, a dataset or a variant that is deleted as a whole; `table` has them by this key."""
        ...


class PartQueries(Protocol):
    """Reads rows that are not in the database."""

    def execute(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor | None:
        """Return the result of a query about runs with parts; None for any other statement."""
        ...

    def close(self) -> None: ...


class Database:
    """Connections to a database, each used by one thread at a time. Everything here raises the driver's errors."""

    def __init__(self, driver: ModuleType, open_connection: Callable[[], Any], path: str = "") -> None:
        """`path` is the file of an SQLite database."""
        self.driver, self.path = driver, path
        self.is_sqlite = driver is sqlite3
        self.redact: Callable[[Any], Any] = _keep_values
        """Returns the values of each execution as they are sent."""
        self.listeners: list[CommitListener] = []
        """Enter rows of their own in each transaction, for the rows that it changes."""
        self.parts: PartQueries | None = None
        """Answers queries about runs with rows in Parquet parts."""
        self._open = open_connection
        self._idle: list[Any] = []

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection for several statements, each a transaction of its own."""
        raw = self._take()
        try:
            yield Connection(self, raw)
        finally:
            # Not one that its server has closed, or that an interrupt has left in a transaction.
            if raw.in_transaction if self.is_sqlite else raw.info.transaction_status:
                raw.close()
            else:
                self._idle.append(raw)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction."""
        with self.connect() as connection, connection.transaction():
            yield connection

    def dispose(self) -> None:
        """Close the connections that are not in use."""
        if self.parts is not None:
            self.parts.close()
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Any:
        while self._idle:
            # Another thread may take the last one.
            with contextlib.suppress(IndexError):
                raw = self._idle.pop()
                if self.is_sqlite or _is_alive(raw, self.driver):
                    return raw
        return self._open()


def _keep_values(values: Any) -> Any:
    return values


def _is_alive(raw: Any, driver: ModuleType) -> bool:
    """Return whether the server still has a connection: it may have been restarted since."""
    try:
        raw.execute("SELECT 1")
    except driver.Error:
        raw.close()
        return False
    return True


class Connection:
    """A connection while one thread uses it."""

    def __init__(self, database: Database, raw: Any) -> None:
        self.database, self.raw = database, raw
        self.is_sqlite, self.parts = database.is_sqlite, database.parts
        self._prepared: list[tuple[CommitListener, list[Any]]] = []
        """By listener, what it remembers of the transaction so far; empty outside of one."""

    def execute(self, sql: str, /, **values: Any) -> Cursor:
        """Execute a statement with its values; a query about runs with Parquet parts reads those, too."""
        cursor = self.parts.execute(self, sql, values) if self.parts is not None else None
        return cursor or self.execute_stored(sql, **values)

    def execute_stored(self, sql: str, /, **values: Any) -> Cursor:
        """Execute a statement on the rows that the database itself has."""
        lists = {name: value for name, value in values.items() if isinstance(value, list | tuple | set | frozenset)}
        statement = _translate(sql, self.is_sqlite, tuple((name, len(value)) for name, value in lists.items()))
        for name, items in lists.items():
            del values[name]
            values |= {f"{name}_{number}": item for number, item in enumerate(items)}
        cursor: Cursor = self.raw.execute(statement, self.database.redact(values))
        return cursor

    def execute_many(self, sql: str, rows: Sequence[Any]) -> int:
        """Execute a statement once for each row of values, and return how many stored rows it changed."""
        return self._execute_redacted(sql, [*map(self.database.redact, rows)])

    def _execute_redacted(self, sql: str, rows: Sequence[Any]) -> int:
        cursor = self.raw.cursor()
        cursor.executemany(_translate(sql, self.is_sqlite, ()), rows)
        changed: int = cursor.rowcount
        return changed

    def first(self, sql: str, /, **values: Any) -> Any:
        """Return the first row; None without one."""
        return next(iter(self.execute(sql, **values)), None)

    def scalar(self, sql: str, /, **values: Any) -> Any:
        """Return the first value of the first row; None without a row."""
        row = self.first(sql, **values)
        return None if row is None else row[0]

    def scalars(self, sql: str, /, **values: Any) -> Iterator[Any]:
        """Yield the first value of each row."""
        return (row[0] for row in self.execute(sql, **values))

    def named_rows(self, sql: str, /, **values: Any) -> Iterator[dict[str, Any]]:
        """Yield each row by the names of its columns."""
        cursor = self.execute(sql, **values)
        names = [column[0] for column in cursor.description]
        return (dict(zip(names, row, strict=True)) for row in cursor)

    def insert(self, table: Table, rows: Sequence[Row], *, over: bool = False) -> int:
        """Insert rows, all with the same columns, and return how many were new or, with `over`, have replaced stored ones.

        Without `over` a row whose key exists is left unchanged: two workers may write the same row.
        """
        if not rows:
            return 0
        return self.insert_columns(table, self._columns_to_store(table, rows), len(rows), over=over)

    def insert_columns(self, table: Table, columns: dict[str, Sequence[Any]], rows: int, *, over: bool = False) -> int:
        """Insert so many rows as `insert` does, by their columns as a run store has them: redacted, and JSON as text."""
        is_covered = self._is_covered(table)
        if is_covered:
            self._number(table, columns, rows)
        insert_columns = self._insert_by_statements if self.is_sqlite else self._insert_by_columns
        inserted = insert_columns(table, columns, over)
        if is_covered and inserted and not over:
            self._record(self._change_of_insert(table, columns, rows, inserted))
        return inserted

    def _insert_by_statements(self, table: Table, columns: Columns, over: bool) -> int:
        names, values = tuple(columns), [*zip(*columns.values(), strict=True)]
        size = ROWS_PER_STATEMENT
        whole = len(values) - len(values) % size
        many = [tuple(chain.from_iterable(values[at : at + size])) for at in range(0, whole, size)]
        inserted = self._execute_redacted(_insert(table, names, over, size), many) if many else 0
        if rest := values[whole:]:
            inserted += self._execute_redacted(_insert(table, names, over, 1), rest)
        return inserted

    def _insert_by_columns(self, table: Table, columns: Columns, over: bool) -> int:
        columns = {name: _as_assigned(table.type_of(name), values) for name, values in columns.items()}
        if len(next(iter(columns.values()))) >= FEWEST_COPIED and table.has_new_keys and not over:
            # COPY knows no conflicts. Where a row is there already, its rows are taken back, and entered with those below.
            with contextlib.suppress(self.database.driver.errors.UniqueViolation), self.raw.transaction():
                return self._copy(table, columns)
        # An array for each column is as fast as a temporary table, and needs no right to make one.
        cursor = self.raw.execute(_insert_arrays(table, tuple(columns), over), [*columns.values()])
        inserted: int = cursor.rowcount
        return inserted

    def _copy(self, table: Table, columns: Columns) -> int:
        # By columns: the driver takes three times as long to write a row at a time.
        rows = map("\t".join, zip(*map(_copied_texts, columns.values()), strict=True))
        cursor = self.raw.cursor()
        with cursor.copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN") as copy:
            copy.write("\n".join([*rows, ""]))
        copied: int = cursor.rowcount
        return copied

    def _number(self, table: Table, columns: dict[str, Sequence[Any]], rows: int) -> None:
        """Give new rows the numbers that the database would assign, so that their keys are known."""
        [key, *others] = table.key
        if not others and key not in columns and table.column(key).numbered:
            if self.is_sqlite:
                first = 1 + (self.scalar(f"SELECT MAX({key}) FROM {table.name}") or 0)
                columns[key] = range(first, first + rows)
            else:
                sequence = f"pg_get_serial_sequence('{table.name}', '{key}')"
                numbers = self.scalars(f"SELECT nextval({sequence}) FROM generate_series(1, :rows)", rows=rows)
                columns[key] = list(numbers)

    def _change_of_insert(
        self, table: Table, columns: Mapping[str, Sequence[Any]], rows: int, inserted: int
    ) -> RowChange:
        """Return the change that an insertion made: of rows that were there already, it is what the database has."""
        if inserted == rows:
            return RowChange(table, rows, columns)
        keys = zip(*(columns[name] for name in table.key), strict=True)
        query = f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {_where(table.key)}"
        stored = [self.first(query, **dict(zip(table.key, key, strict=True))) for key in keys]
        return change_of(table, [row for row in stored if row is not None])

    def _is_covered(self, table: Table) -> bool:
        return any(listener.covers(table) for listener, _ in self._prepared)

    def _record(self, change: RowChange) -> None:
        for listener, prepared in self._prepared if change.rows else ():
            if listener.covers(change.table):
                prepared.append(listener.prepare(self, change))

    @contextlib.contextmanager
    def changing(self, table: Table, where: str, /, **values: Any) -> Iterator[None]:
        """Record, for listeners, what statements within do to the rows of a table that meet a condition."""
        if not self._is_covered(table):
            yield
            return
        # Another process must not change a row between this query and the statement.
        lock = "" if self.is_sqlite else " FOR UPDATE"
        query = f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {where}"
        before = dict.fromkeys(self.execute(query + lock, **values))
        yield
        cursor = self.execute(query, **values)
        # A copied arm may have a million rows.
        while part := cursor.fetchmany(_PART):
            added = [row for row in part if row not in before]
            for row in part:
                before.pop(row, None)
            self._record(change_of(table, added))
        self._record(change_of(table, list(before), is_removed=True))

    def record_stored(self, table: Table, column: str, key: str) -> None:
        """Record, for listeners that lack them, the rows of a dataset or variant that is stored already, by its column."""
        if any(listener.lacks(self, table, key) for listener, _ in self._prepared):
            cursor = self.execute(f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {column} = :key", key=key)
            while part := cursor.fetchmany(_PART):
                self._record(change_of(table, part))

    def forget(self, table: Table, key: str) -> None:
        """Let listeners remove what belongs to a run, a dataset or a variant that is deleted as a whole."""
        for listener in self.database.listeners:
            listener.forget(self, table, key)

    def _columns_to_store(self, table: Table, rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
        """Return the redacted columns of rows by name, without those that have no value: NULL is what a row has without one.

        The sqlite3 module looks for a converter of each None and each boolean. Without these, and with texts that are redacted by
        the column, the 50,000 rows of 10,000 samples take 0.15 s, and took 0.23.
        """
        # The first name twice: of a single one, itemgetter returns no tuple.
        values_by_row = map(itemgetter(*rows[0], next(iter(rows[0]))), rows)
        columns: dict[str, Sequence[Any]] = {}
        for name, values in zip(rows[0], zip(*values_by_row, strict=True), strict=False):
            kinds = {*map(type, values)}
            if kinds != {NoneType}:
                columns[name] = self._values_to_store(table.type_of(name), values, is_text=str in kinds)
        return columns

    def _values_to_store(self, type: str, values: Sequence[Any], *, is_text: bool) -> Sequence[Any]:
        """Return the redacted values of a column, JSON as text."""
        if type == "BOOLEAN" and self.is_sqlite:
            return [*map(_AS_NUMBERS.get, values)]
        is_json = type == "JSON"
        values = _encode_all(values) if is_json else values
        redacted: Sequence[Any] = self.database.redact(values) if is_text or is_json else values
        return redacted

    def tables(self) -> set[str]:
        """Return the names of all tables."""
        return set(self.scalars(_SQLITE_TABLES if self.is_sqlite else _POSTGRESQL_TABLES))

    def columns(self, table: Table) -> set[str]:
        """Return the names of a table's columns as it is in the database."""
        # Neither reads a row.
        return {column[0] for column in self.execute(f"SELECT * FROM {table.name} LIMIT 0").description}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is executed within, or nothing of it."""
        self._prepared = [(listener, []) for listener in self.database.listeners]
        try:
            with self._transaction():
                yield
        finally:
            self._prepared = []

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.is_sqlite:
            with contextlib.ExitStack() as until_committed, self.raw.transaction():
                yield
                until_committed.enter_context(self._with_listeners())
            return
        # A transaction that begins by reading could no longer write once another process has written.
        self.raw.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._with_listeners():
                self.raw.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors.
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
            raise

    def enter_changes(self) -> None:
        """Let listeners enter what belongs to the changes so far: those of millions of rows would fill the memory."""
        with self._with_listeners():
            self._prepared = [(listener, []) for listener in self.database.listeners]

    @contextlib.contextmanager
    def _with_listeners(self) -> Iterator[None]:
        """Commit, within this context, what listeners enter for the changes so far."""
        everything, self._prepared = self._prepared, []
        with contextlib.ExitStack() as stack:
            for listener, prepared in everything:
                if prepared:
                    stack.enter_context(listener.committing(self, prepared))
            yield

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries within see the database as it is now, whatever another process commits."""
        if self.is_sqlite:
            self.raw.execute("BEGIN")
            try:
                yield
            finally:
                self.raw.execute("ROLLBACK")
            return
        with self.raw.transaction():
            self.raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    @contextlib.contextmanager
    def stream(self, sql: str, /, **values: Any) -> Iterator[Cursor]:
        """Execute a query whose rows are fetched a part at a time, so that a large result never sits in memory."""
        if self.is_sqlite:
            yield self.execute(sql, **values)
            return
        if self.parts is not None and (rows := self.parts.execute(self, sql, values)) is not None:
            yield rows
            return
        with self.raw.transaction(), self.raw.cursor(name="crucible") as cursor:
            cursor.execute(_translate(sql, False, ()), self.database.redact(values))
            yield cursor


_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_POSTGRESQL_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false))"

# The sqlite3 module releases Python's lock for each statement, and then waits to get it back: fewer statements, fewer waits.
ROWS_PER_STATEMENT = 20
"""Rows that one INSERT of SQLite has."""
FEWEST_COPIED = 100
"""Rows from which COPY with its savepoint, four messages to the server, is faster than an INSERT."""

_PART = 5_000
"""Changed rows that are in memory at a time."""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
"""What COPY reads as the end of a value or a row."""
_VALUE = re.compile(r"(?<![:\w]):([a-z]\w*)")


@functools.lru_cache(maxsize=512)
def _translate(sql: str, is_sqlite: bool, sizes: tuple[tuple[str, int], ...]) -> str:
    """Return a statement as its driver reads it. `sizes` are the lengths of lists: no value is in an empty one."""
    for name, size in sizes:
        places = ", ".join(f":{name}_{number}" for number in range(size)) or "NULL"
        sql = re.sub(rf"(?<![:\w]):{name}\b", places, sql)
    if is_sqlite:
        return sql
    return _VALUE.sub(r"%(\1)s", sql.replace("%", "%%")).replace("?", "%s")


@functools.lru_cache(maxsize=512)
def _insert(table: Table, names: tuple[str, ...], over: bool, rows: int) -> str:
    values = f"({', '.join('?' * len(names))})"
    return _insert_from(table, names, over, f"VALUES {', '.join([values] * rows)}")


@functools.lru_cache(maxsize=512)
def _insert_arrays(table: Table, names: tuple[str, ...], over: bool) -> str:
    """Return the statement of PostgreSQL that inserts rows, whose values are an array for each column."""
    # VARCHAR(n)[] would cut longer texts: as an array of texts, they are refused.
    types = ("BIGINT" if table.column(name).numbered else postgresql_type(table.type_of(name)) for name in names)
    arrays = ", ".join(f"%s::{'TEXT' if type.startswith('VARCHAR') else type}[]" for type in types)
    return _insert_from(table, names, over, f"SELECT * FROM unnest({arrays})")


def _insert_from(table: Table, names: tuple[str, ...], over: bool, source: str) -> str:
    replaced = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    action = f"({', '.join(table.key)}) DO UPDATE SET {replaced}" if over else "DO NOTHING"
    return f"INSERT INTO {table.name} ({', '.join(names)}) {source} ON CONFLICT {action}"


def _as_assigned(sql_type: str, values: Sequence[Any]) -> list[Any]:
    """Return numbers as PostgreSQL converts them for their column: an array has one type, and COPY refuses 1.0 for 1."""
    types = {*map(type, values)}
    if sql_type in ("INTEGER", "BIGINT") and float in types:
        return [None if value is None else round(value) for value in values]
    if sql_type == "FLOAT" and int in types:
        return [None if value is None else float(value) for value in values]
    return list(values)


def _copied_texts(values: Sequence[Any]) -> Iterator[str]:
    """Return values of a column as COPY reads them; most are there several times."""
    texts = {value: _copied_text(value) for value in {*values}}
    return map(texts.__getitem__, values)


def _copied_text(value: Any) -> str:
    """Return a value as COPY reads it: https://www.postgresql.org/docs/current/sql-copy.html

    >>> print(*map(_copied_text, [None, True, 0.5, b"\\x01", "a\\tb"]))
    \\N True 0.5 \\\\x01 a\\tb
    """
    if value is None:
        return r"\N"
    if isinstance(value, bytes):
        return rf"\\x{value.hex()}"
    return value.translate(_ESCAPES) if isinstance(value, str) else str(value)


# What a column of type BOOLEAN has, in SQLite.
_AS_NUMBERS = {True: 1, False: 0, None: None}
# `json.dumps` compares its ten options with their defaults at each call.
_encode = json.JSONEncoder().encode


def _encode_all(values: Sequence[Any]) -> list[Any]:
    """Return values as JSON text. An object that several rows share is encoded once."""
    objects = {id(value): value for value in values}
    texts = {key: None if value is None else _encode(value) for key, value in objects.items()}
    return [texts[id(value)] for value in values]


def _where(names: Sequence[str]) -> str:
    return " AND ".join(f"{name} = :{name}" for name in names)


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the drivers that are loaded."""
    psycopg = sys.modules.get("psycopg")
    return (sqlite3.Error, psycopg.Error) if psycopg else (sqlite3.Error,)
