"""Opening the run store, and saying in one sentence why it cannot be opened."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, Table, create_engine, event, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from pytest_crucible.errors import StoreError
from pytest_crucible.redaction import hider, secrets_in
from pytest_crucible.store import schema
from pytest_crucible.store.upgrading import upgrade

BUSY_S = 30.0
"""How long a write waits for another process's write."""


def open_engine(location: str, *, busy_s: float = BUSY_S) -> Engine:
    """A database that is there, writable and of this version, made if need be.

    `location` is a path (SQLite) or a database URL. Raises StoreError.
    """
    url = location if "://" in location else _sqlite_url(Path(location))
    with explained(shown(location)):
        engine = _engine(url, busy_s)
        try:
            _prepare(engine, shown(location))
        except BaseException:
            engine.dispose()
            raise
        return engine


def shown(location: str) -> str:
    """A path, or a URL without its password."""
    return hider(secrets_in(location))(location)


@contextlib.contextmanager
def explained(location: str) -> Iterator[None]:
    """Turn a database error into a StoreError: which store, what is wrong, what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(f"run store {location!r} {_explanation(error)}") from error


_CAUSES = {
    "database is locked": "is locked by another process: wait for it, or name another store with --crucible-store",
    "readonly database": "is read-only: make it writable, or name another store with --crucible-store",
    "not a database": "is not a run store (another kind of file, or corrupt): move it away, or name another one",
    "malformed": "is corrupt: move it away and start a new one, or restore a copy",
    "disk is full": "cannot be written, the disk is full: free space, then go on with --crucible-resume",
    "disk i/o error": "cannot be written (disk I/O error): check the disk, then go on with --crucible-resume",
    "no space left": "cannot be written, the disk is full: free space, then go on with --crucible-resume",
    "lock timeout": "is locked by another process: wait for it, or name another store with --crucible-store",
    "connection refused": "cannot be reached: start its server, or name another store with --crucible-store",
    "closed the connection": "has lost its server: start it again, then go on with --crucible-resume",
    "terminating connection": "has lost its server: start it again, then go on with --crucible-resume",
    "could not translate": "cannot be reached: there is no such host",
    "failed to resolve": "cannot be reached: there is no such host",
    "authentication failed": "refuses this user and password: check the URL",
    "unable to open": "cannot be opened: check that its directory exists and can be written to",
}


def insert_once(dialect: Dialect, table: Table) -> Any:
    """An INSERT that leaves a row alone which is there already: two workers may say the same."""
    return _insert(dialect, table).on_conflict_do_nothing()


def insert_over(dialect: Dialect, table: Table) -> Any:
    """An INSERT that takes the place of the row with the same key."""
    new = _insert(dialect, table)
    told = {column.name: new.excluded[column.name] for column in table.c if not column.primary_key}
    return new.on_conflict_do_update(index_elements=list(table.primary_key), set_=told)


def _insert(dialect: Dialect, table: Table) -> Any:
    """As the database has it; the other one's dialect is not imported, which would take as long as listing a thousand runs."""
    if dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def _explanation(error: SQLAlchemyError) -> str:
    said = str(error.orig) if isinstance(error, DatabaseError) else str(error)
    for sign, sentence in _CAUSES.items():
        if sign in said.lower():
            return sentence
    if isinstance(error, ArgumentError | NoSuchModuleError):
        return "is not a database that can be reached: write a path, or a URL such as postgresql://host/name"
    return f"cannot be used: {said.strip().splitlines()[0]}"


def _sqlite_url(path: Path) -> URL:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ignore = path.parent / ".gitignore"
        if path.parent.name == ".crucible" and not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")  # answers and prompts do not belong into commits
    except OSError as error:
        raise StoreError(f"run store {str(path)!r} cannot be made: {error}") from error
    return URL.create("sqlite", database=str(path))


def _engine(url: str | URL, busy_s: float) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgresql(parsed, busy_s)
    if parsed.get_backend_name() != "sqlite":
        raise ArgumentError(f"run stores are kept in SQLite and PostgreSQL, not in {parsed.get_backend_name()}")
    engine = create_engine(url, connect_args={"timeout": busy_s})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        _use_wal(connection, busy_s)
        # Durable against kill -9; only a power cut can take the last commits. https://sqlite.org/pragma.html#pragma_synchronous
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _postgresql(url: URL, busy_s: float) -> Engine:
    """psycopg 3, whichever driver the URL means by itself; a connection that died meanwhile is replaced.

    Of a machine that is gone nothing comes back, not even a refusal: what it does not acknowledge in time is given up.
    https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TCP-USER-TIMEOUT
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    busy_ms = f"{busy_s * 1000:.0f}"
    waits = {"connect_timeout": 10, "tcp_user_timeout": busy_ms, "options": f"-c lock_timeout={busy_ms}"}
    try:
        return create_engine(url, connect_args=waits, pool_pre_ping=True)
    except ImportError as error:
        raise StoreError(
            f"run store {shown(url.render_as_string(hide_password=False))!r} needs psycopg, which is not installed: "
            'pip install "pytest-crucible[postgres]"'
        ) from error


def _use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Several workers may open a new file at once, and here SQLite does not wait by itself."""
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
    found = _format(engine)
    if found is None:
        _make(engine)
        found = _format(engine)
    if found is not None and found > schema.FORMAT:
        raise StoreError(
            f"run store {location!r} has format {found}, this version writes format {schema.FORMAT}: "
            "upgrade pytest-crucible, or name another store with --crucible-store"
        )
    if found is not None and found < schema.FORMAT:
        with _alone(engine) as connection:
            upgrade(connection)
    _try_to_write(engine)


def _format(engine: Engine) -> int | None:
    """None where nobody has finished to make the tables: their format is the last to be written."""
    if not inspect(engine).has_table(schema.store_format.name):
        return None
    with engine.connect() as connection:
        return connection.execute(select(schema.store_format.c.version)).scalar()


def _make(engine: Engine) -> None:
    """All tables or none. Several workers may come here at once; one that is late finds the tables made."""
    with contextlib.suppress(DatabaseError):
        _make_tables(engine)
        return
    _make_tables(engine)


def _make_tables(engine: Engine) -> None:
    with _alone(engine) as connection:
        schema.metadata.create_all(connection)
        connection.execute(insert_once(engine.dialect, schema.store_format).values(version=schema.FORMAT))


@contextlib.contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes tables, whole or not at all."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # the driver begins none for CREATE TABLE
        yield connection


def _try_to_write(engine: Engine) -> None:
    """Fail before sampling, not after: a write that changes nothing."""
    with engine.begin() as connection:
        connection.execute(schema.runs.update().where(schema.runs.c.id == "").values(status=""))
