"""Opens and upgrades the run store's database, and explains in one sentence why it cannot be used."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

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
from pytest_crucible.store.database import Connection, Database, driver_errors
from pytest_crucible.store.schema import ADDED, FORMAT
from pytest_crucible.store.table import Table, column_definition


def upgrade(connection: Connection) -> None:
    """Add missing tables and columns, within the transaction. One of several processes does it; the others find them."""
    lock = "" if connection.is_sqlite else " FOR UPDATE"
    version = connection.scalar(f"SELECT version FROM store_format{lock}")
    for additions in ADDED[version - 1 :]:
        for addition in additions:
            _add(connection, addition)
    _create_missing(connection, schema.feature_tables())
    connection.execute("UPDATE runs SET format = :version WHERE format IS NULL", version=version)
    connection.execute("UPDATE store_format SET version = :version", version=max(version, FORMAT))


def _add(connection: Connection, addition: Table | tuple[Table, str]) -> None:
    """Add a table or column, unless it exists: two unreleased versions may both have added it, each as its own format."""
    if isinstance(addition, Table):
        _create_missing(connection, [addition])
        return
    table, name = addition
    if name not in connection.columns(table):
        definition = column_definition(table.column(name), is_sqlite=connection.is_sqlite)
        connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {definition}")


def _create_missing(connection: Connection, tables: Iterable[Table]) -> None:
    present = connection.tables()
    for table in tables:
        for statement in table.statements(is_sqlite=connection.is_sqlite) if table.name not in present else ():
            connection.execute(statement)


BUSY_S = 30.0
"""Seconds that a write waits for another process's write."""


def open_database(location: str, *, busy_s: float = BUSY_S) -> Database:
    """Return a writable database of this format. A missing one is created, an older one upgraded.

    `location` is a path (SQLite) or a database URL. Raises StoreError.
    """
    with explain_errors(redact_location(location)):
        database = make_database(location, busy_s)
        try:
            _prepare(database, redact_location(location))
        except BaseException:
            database.dispose()
            raise
        return database


def redact_location(location: str) -> str:
    """Return a location for messages: a path, or a URL without its password."""
    return hider(secrets_in(location))(location)


@contextlib.contextmanager
def explain_errors(location: str) -> Iterator[None]:
    """Raise a StoreError for a database error, with the store, the cause and the remedy."""
    try:
        yield
    except driver_errors() as error:
        raise StoreError(f"run store {location!r} {_explanation(error)}") from error


_NO_URL = "is not a database that can be reached: write a path, or a URL such as postgresql://host/name"
_CAUSES = {
    "in uri": _NO_URL,
    # The driver's sentence has the password in it.
    "percent-encoded": "is a URL with a character that must be percent-encoded: write %25 for %, and %20 for a space",
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
    "permission denied": "refuses this user some of its tables: grant SELECT on all of them to read it, and all rights to write",
    "unable to open": "cannot be opened: check that its directory exists and can be written to",
}


def _explanation(error: Exception) -> str:
    message = str(error)
    for sign, sentence in _CAUSES.items():
        if sign in message.lower():
            return sentence
    return f"cannot be used ({message.strip().splitlines()[0]}): repair it, or name another store with --crucible-store"


def make_database(location: str, busy_s: float) -> Database:
    """Return the database at a path or URL, without a connection yet. Raises StoreError."""
    if (url := postgresql_url(location)) is not None:
        return make_postgresql(url, busy_s)
    scheme, separator, address = location.partition("://")
    if scheme == "sqlite" and address.startswith("/") and address != "/":
        name, _, settings = address[1:].partition("?")
        if name.startswith("file:"):
            # SQLite's own URI, such as file:runs.db?mode=ro.
            return _sqlite(f"{name}?{settings}", busy_s, is_uri=True)
        return _sqlite_file(Path(unquote(name)), busy_s)
    if separator:
        raise unusable_url(location)
    path = Path(location)
    _create_folder(path)
    return _sqlite_file(path, busy_s)


def postgresql_url(location: str) -> str | None:
    """Return the URL of a database of PostgreSQL; None for another location."""
    scheme, _, address = location.partition("://")
    return f"postgresql://{address}" if scheme in ("postgresql", "postgresql+psycopg") and address else None


def unusable_url(location: str) -> StoreError:
    """Return the error for a URL of no database that a run store can be in."""
    return StoreError(f"run store {redact_location(location)!r} {_NO_URL}")


def _create_folder(path: Path) -> None:
    """Create the folder of an SQLite store. Raises StoreError."""
    with _explain_files(path):
        if path.parent.name == STORE_FOLDER:
            create_store_folder(path.parent)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _close_file(path: Path) -> None:
    """Create the file of an SQLite store, which only its owner can read and change. Raises StoreError."""
    with _explain_files(path):
        create_closed(path)
        # SQLite gives these the permissions that the database has when it creates them.
        for beside in ("-wal", "-shm", "-journal"):
            close_to_others(Path(f"{path}{beside}"))


@contextlib.contextmanager
def _explain_files(path: Path) -> Iterator[None]:
    try:
        yield
    except NotPrivateError as error:
        raise StoreError(f"run store {str(path)!r} cannot be made private: {error}") from error
    except OSError as error:
        raise StoreError(
            f"run store {str(path)!r} cannot be created: {error}: make its folder writable, or "
            "name another store with --crucible-store"
        ) from error


def _sqlite_file(path: Path, busy_s: float) -> Database:
    # A URL may name a folder that is not there, which SQLite reports.
    if path.parent.is_dir():
        _close_file(path)
    # Absolute: a test may change the directory before the next connection, and some SQLite take any "file:" for a URI.
    return _sqlite(str(path.absolute()), busy_s, is_uri=False)


def _sqlite(name: str, busy_s: float, *, is_uri: bool) -> Database:
    def connect() -> sqlite3.Connection:
        # Transactions begin where they are written: isolation_level=None.
        connection = sqlite3.connect(name, timeout=busy_s, isolation_level=None, check_same_thread=False, uri=is_uri)
        try:
            if not _is_foreign(connection):
                _use_wal(connection, busy_s)
            # Durable against kill -9; only a power cut can take the last commits. https://sqlite.org/pragma.html#pragma_synchronous
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    return Database(sqlite3, connect, "" if is_uri else name)


def make_postgresql(url: str, busy_s: float, *settings: str) -> Database:
    """Return a database of PostgreSQL: connections that died with their server are replaced. `settings` are of each connection."""
    try:
        import psycopg
        from psycopg.types.string import TextLoader
    except ImportError as error:
        raise StoreError(
            f"run store {redact_location(url)!r} needs psycopg, which is not installed: "
            'pip install "pytest-crucible[postgres]"'
        ) from error
    # A machine that is gone does not even refuse a connection: tcp_user_timeout gives up what it does not acknowledge.
    # https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TCP-USER-TIMEOUT
    busy_ms = f"{busy_s * 1000:.0f}"
    waits: dict[str, Any] = {
        "connect_timeout": 10,
        "tcp_user_timeout": busy_ms,
        "options": " ".join(f"-c {setting}" for setting in (f"lock_timeout={busy_ms}", *settings)),
    }

    def connect() -> Any:
        connection = psycopg.connect(url, autocommit=True, **waits)
        # JSON as SQLite returns it.
        connection.adapters.register_loader("json", TextLoader)
        return connection

    return Database(psycopg, connect)


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


def _prepare(database: Database, location: str) -> None:
    """Create or upgrade what is missing in a database, and check that it can be written. Raises StoreError."""
    with database.connect() as connection:
        version = stored_format(connection)
        if version is None:
            check_own(connection, location)
            _create(connection)
            version = stored_format(connection)
        if version is not None and version > FORMAT:
            raise StoreError(
                f"run store {location!r} has format {version}, this version writes format {FORMAT}: "
                "upgrade pytest-crucible, or name another store with --crucible-store"
            )
        if version is not None and (version < FORMAT or missing_tables(connection)):
            with connection.transaction():
                upgrade(connection)
        # Before sampling. It changes no row.
        connection.execute("UPDATE runs SET status = '' WHERE id = ''")


def stored_format(connection: Connection) -> int | None:
    """Return the store's format; None if its tables are not complete yet: the format is written last."""
    if schema.store_format.name not in connection.tables():
        return None
    version: int | None = connection.scalar("SELECT version FROM store_format")
    return version


def check_own(connection: Connection, location: str) -> None:
    """Raise StoreError for an SQLite file of another program; a PostgreSQL database may hold other tables."""
    others = connection.tables() - set(schema.all_tables())
    if others and connection.is_sqlite:
        raise StoreError(
            f"run store {location!r} is not a run store: it is a database with other tables ({min(others)!r}); name another file"
        )


def missing_tables(connection: Connection) -> set[str]:
    """Return the tables of features without which the store was made."""
    return {table.name for table in schema.feature_tables()} - connection.tables()


def _create(connection: Connection) -> None:
    """Create all tables or none. Of several workers that try at once, a late one finds the tables and tries again."""
    with contextlib.suppress(*driver_errors()):
        _create_tables(connection)
        return
    _create_tables(connection)


def _create_tables(connection: Connection) -> None:
    with connection.transaction():
        _create_missing(connection, schema.all_tables().values())
        connection.insert(schema.store_format, [{"version": FORMAT}])
