"""Opens and upgrades the run store's database, inserts rows, and explains in one sentence why it cannot be used.

SQLAlchemy takes longer to bind one row of an executemany than SQLite takes to store it. A compiled statement that goes to the
driver avoids that: https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Connection.exec_driver_sql
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, URL, Connection, Dialect, Engine, Table, create_engine, event, inspect, select, update
from sqlalchemy.dialects import registry
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.schema import Column, CreateColumn

from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.files import (
    STORE_FOLDER,
    NotPrivateError,
    close_to_others,
    create_closed,
    create_store_folder,
)
from pytest_crucible.records.redaction import hider
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.store import schema
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


BUSY_S = 30.0
"""Seconds that a write waits for another process's write."""


def open_engine(location: str, *, busy_s: float = BUSY_S) -> Engine:
    """Return the engine of a writable database of this format. A missing one is created, an older one upgraded.

    `location` is a path (SQLite) or a database URL. Raises StoreError.
    """
    url = location if "://" in location else _sqlite_url(Path(location))
    with explain_errors(redact_location(location)):
        engine = _create_engine(url, busy_s)
        try:
            _prepare(engine, redact_location(location))
        except BaseException:
            engine.dispose()
            raise
        return engine


def redact_location(location: str) -> str:
    """Return a location for messages: a path, or a URL without its password."""
    return hider(secrets_in(location))(location)


@contextlib.contextmanager
def explain_errors(location: str) -> Iterator[None]:
    """Raise a StoreError for a database error, with the store, the cause and the remedy."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(f"run store {location!r} {_explanation(error)}") from error


_CAUSES = {
    "database is locked": "is locked by another process: wait for it, or name another store with --crucible-store",
    "readonly database": "is read-only: make it writable, or name another store with --crucible-store",
    "not a database": "is not a run store (another kind of file, or corrupt): move it away, or name another one",
    "malformed": "is corrupt: move it away and start a new one, or restore a copy",
    "disk is full": "cannot be written, the disk is full: free space, then resume with --crucible-resume",
    "disk i/o error": "cannot be written (disk I/O error): check the disk, then resume with --crucible-resume",
    "no space left": "cannot be written, the disk is full: free space, then resume with --crucible-resume",
    "lock timeout": "is locked by another process: wait for it, or name another store with --crucible-store",
    "connection refused": "cannot be reached: start its server, or name another store with --crucible-store",
    "closed the connection": "has lost its server: start it again, then resume with --crucible-resume",
    "terminating connection": "has lost its server: start it again, then resume with --crucible-resume",
    "timeout expired": "cannot be reached, its server does not answer: check the URL, or name another store with --crucible-store",
    "could not translate": "cannot be reached: the host does not exist: check the URL",
    "failed to resolve": "cannot be reached: the host does not exist: check the URL",
    "authentication failed": "refuses this user and password: check the URL",
    "unable to open": "cannot be opened: check that its directory exists and can be written to",
}


def insert_or_ignore(dialect: Dialect, table: Table) -> Any:
    """Return an INSERT that leaves an existing row unchanged: two workers may write the same row."""
    return _insert(dialect, table).on_conflict_do_nothing()


def insert_or_replace(dialect: Dialect, table: Table) -> Any:
    """Return an INSERT that replaces the row with the same key."""
    new = _insert(dialect, table)
    values = {column.name: new.excluded[column.name] for column in table.c if not column.primary_key}
    return new.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)


def _insert(dialect: Dialect, table: Table) -> Any:
    """Return the INSERT of the database's dialect."""
    # The other dialect is not imported: that would take as long as listing a thousand runs.
    if dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def _explanation(error: SQLAlchemyError) -> str:
    message = str(error.orig) if isinstance(error, DatabaseError) else str(error)
    for sign, sentence in _CAUSES.items():
        if sign in message.lower():
            return sentence
    if isinstance(error, ArgumentError | NoSuchModuleError):
        return "is not a database that can be reached: write a path, or a URL such as postgresql://host/name"
    return f"cannot be used ({message.strip().splitlines()[0]}): repair it, or name another store with --crucible-store"


def _sqlite_url(path: Path) -> URL:
    """Return the URL of a file, in a folder that exists from now on. Raises StoreError."""
    with _explain_files(path):
        if path.parent.name == STORE_FOLDER:
            create_store_folder(path.parent)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return URL.create("sqlite", database=str(path))


def _close_file(path: Path) -> None:
    """Create the file of an SQLite store, which only its owner can read and change. Raises StoreError."""
    with _explain_files(path):
        create_closed(path)
        # SQLite gives these the permissions that the database has when it creates them.
        for beside in ("-wal", "-shm", "-journal"):
            close_to_others(path.with_name(path.name + beside))


@contextlib.contextmanager
def _explain_files(path: Path) -> Iterator[None]:
    try:
        yield
    except NotPrivateError as error:
        raise StoreError(f"run store {str(path)!r} cannot be made private: {error}") from error
    except OSError as error:
        raise StoreError(f"run store {str(path)!r} cannot be created: {error}") from error


def _create_engine(url: str | URL, busy_s: float) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgresql(parsed, busy_s)
    if parsed.get_backend_name() != "sqlite":
        raise ArgumentError(f"a run store is in SQLite or PostgreSQL, not in {parsed.get_backend_name()}")
    # A URL may name a folder that is not there, which SQLite reports.
    if parsed.database and Path(parsed.database).parent.is_dir():
        _close_file(Path(parsed.database))
    engine = create_engine(url, connect_args={"timeout": busy_s})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        if not _is_foreign(connection):
            _use_wal(connection, busy_s)
        # Durable against kill -9; only a power cut can take the last commits. https://sqlite.org/pragma.html#pragma_synchronous
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _postgresql(url: URL, busy_s: float) -> Engine:
    """Return an engine that uses psycopg 3 where the URL names no driver, and replaces connections that died."""
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    # A machine that is gone does not even refuse a connection: tcp_user_timeout gives up what it does not acknowledge.
    # https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TCP-USER-TIMEOUT
    busy_ms = f"{busy_s * 1000:.0f}"
    waits = {"connect_timeout": 10, "tcp_user_timeout": busy_ms, "options": f"-c lock_timeout={busy_ms}"}
    try:
        return create_engine(url, connect_args=waits, pool_pre_ping=True)
    except ImportError as error:
        raise StoreError(
            f"run store {redact_location(url.render_as_string(hide_password=False))!r} needs psycopg, which is not installed: "
            'pip install "pytest-crucible[postgres]"'
        ) from error


def _is_foreign(connection: sqlite3.Connection) -> bool:
    """Return whether another program made the database. WAL mode would change its file, before it is refused."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return bool(tables) and schema.store_format.name not in tables


def _use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Switch to write-ahead logging. Several workers may open a new file at once, and SQLite does not wait in this case."""
    deadline = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def _prepare(engine: Engine, location: str) -> None:
    version = _stored_format(engine)
    if version is None:
        _check_own(engine, location)
        _create(engine)
        version = _stored_format(engine)
    if version is not None and version > schema.FORMAT:
        raise StoreError(
            f"run store {location!r} has format {version}, this version writes format {schema.FORMAT}: "
            "upgrade pytest-crucible, or name another store with --crucible-store"
        )
    if version is not None and (version < schema.FORMAT or _lacks_feature_tables(engine)):
        with _exclusive_transaction(engine) as connection:
            upgrade(connection)
    _check_writable(engine)


def _stored_format(engine: Engine) -> int | None:
    """Return the store's format; None if its tables are not complete yet: the format is written last."""
    if not inspect(engine).has_table(schema.store_format.name):
        return None
    with engine.connect() as connection:
        return connection.execute(select(schema.store_format.c.version)).scalar()


def _check_own(engine: Engine, location: str) -> None:
    """Raise StoreError for an SQLite file of another program; a PostgreSQL database may hold other tables."""
    others = set(inspect(engine).get_table_names()) - set(schema.all_tables())
    if others and engine.dialect.name == "sqlite":
        raise StoreError(
            f"run store {location!r} is not a run store: it is a database with other tables ({min(others)!r}); name another file"
        )


def _lacks_feature_tables(engine: Engine) -> bool:
    """Return whether the store was made without one of the features."""
    return not {table.name for table in schema.feature_tables()} <= set(inspect(engine).get_table_names())


def _create(engine: Engine) -> None:
    """Create all tables or none. Of several workers that try at once, a late one finds the tables and tries again."""
    with contextlib.suppress(DatabaseError):
        _create_tables(engine)
        return
    _create_tables(engine)


def _create_tables(engine: Engine) -> None:
    with _exclusive_transaction(engine) as connection:
        schema.metadata.create_all(connection, list(schema.all_tables().values()))
        connection.execute(insert_or_ignore(engine.dialect, schema.store_format).values(version=schema.FORMAT))


@contextlib.contextmanager
def _exclusive_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that changes tables completely or not at all."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # The sqlite3 module begins no transaction by itself for CREATE TABLE.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


def _check_writable(engine: Engine) -> None:
    """Raise before sampling if the store cannot be written, by an UPDATE that changes no row."""
    with engine.begin() as connection:
        connection.execute(schema.runs.update().where(schema.runs.c.id == "").values(status=""))


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
