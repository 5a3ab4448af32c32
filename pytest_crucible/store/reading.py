"""Opens a run store for reading alone: no file is created or changed, neither the store's nor one beside it.

SQLite writes for its readers too: to read a file in WAL mode it creates a log and a shared index beside it (`-wal`, `-shm`), and
`mode=ro` leaves both behind. Two kinds of connections write nothing, and one of them always fits:

- Without a log, or with an empty one that has no index, all commits are in the file. An `immutable` connection reads it without
  locks. A session that begins meanwhile may move commits into the file, so that what was read is a mixture: the file's time has
  changed then, and `ChangedStoreError` is raised when the reading is over.
- Beside a session that writes or was killed there are a log and an index. With `readonly_shm` SQLite takes its locks, and writes
  neither; where no process writes, it makes an index of its own in memory. https://sqlite.org/wal.html#read_only_databases

No connection is kept, as opening one takes 0.2 ms: the last writer merges its log into the file only if no connection is open.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection, Database, driver_errors, from_json
from pytest_crucible.store.opening import (
    check_own,
    explain_errors,
    make_postgresql,
    missing_tables,
    postgresql_url,
    redact_location,
    stored_format,
    unusable_url,
)
from pytest_crucible.store.schema import FORMAT

TICK_S = 0.05
"""Seconds, more than a tick of a file system's clock: a file that is changed twice within one has the same time."""
ATTEMPTS = 10
"""Of opening a file: a writer may remove its log between the look for it and the opening."""
BUSY_S = 5.0
"""Seconds that a page waits for another process, which locks all of a file only where it has no log."""
_RIGHTS = "check that you may read it, its folder, and the files -wal and -shm beside it"
_HINT = "run pytest with an experiment first, or name a store with --store"


class ChangedStoreError(StoreError):
    """A store that was changed while it was read without locks: reading it again gives what it has now."""


READINGS = 3
"""Of a store that changes meanwhile, before a reader gives up: beside a session that writes, SQLite's locks are taken."""


def open_for_reading(location: str, reader: str) -> Database:
    """Return a database that is only read, at a path (SQLite) or a database URL. Raises StoreError.

    `reader` is the command that reads, for messages.
    """
    with explain_errors(redact_location(location)):
        database = _make_reader(location)
        try:
            with database.connect() as connection:
                check_format(connection, redact_location(location), reader)
        except BaseException:
            database.dispose()
            raise
        return database


def _make_reader(location: str) -> Database:
    if (url := postgresql_url(location)) is not None:
        return make_postgresql(url, BUSY_S, "default_transaction_read_only=on")
    scheme, separator, address = location.partition("://")
    if separator and (scheme != "sqlite" or not address.startswith("/") or address == "/"):
        raise unusable_url(location)
    # A URL may have SQLite's own URI in it, such as file:runs.db?mode=ro.
    path = unquote(address[1:].removeprefix("file:").partition("?")[0]) if separator else location
    return ReadOnlyFile(Path(path), location)


def check_format(connection: Connection, location: str, reader: str) -> None:
    """Raise StoreError for a database that has no tables of a run store, or those of another format."""
    version = stored_format(connection)
    if version is None:
        check_own(connection, location)
        raise StoreError(f"{location} has no runs yet: {_HINT}")
    if version > FORMAT:
        raise StoreError(f"this store has format {version}, and this version reads {FORMAT}: {_upgrade(connection)}")
    upgrade = f'{reader} changes nothing: run "crucible runs" once to upgrade it'
    if version < FORMAT:
        raise StoreError(f"this store has format {version}, and {upgrade}")
    if missing := missing_tables(connection):
        raise StoreError(f"this store lacks the table {min(missing)!r}, and {upgrade}")


def _upgrade(connection: Connection) -> str:
    """Return what to install to read a newer format: the version of the run that was entered last."""
    with contextlib.suppress(*driver_errors(), KeyError, TypeError, ValueError):
        environment = from_json(connection.scalar("SELECT environment FROM runs ORDER BY started DESC LIMIT 1"))
        version = environment["packages"]["pytest-crucible"]
        return f'it needs pytest-crucible {version}: pip install "pytest-crucible>={version}"'
    return "it needs a newer pytest-crucible: pip install --upgrade pytest-crucible"


class _State(NamedTuple):
    """A state of a file: it changes with the content."""

    inode: int
    size: int
    modified_ns: int


class ReadOnlyFile(Database):
    """An SQLite file that is only read."""

    def __init__(self, path: Path, location: str) -> None:
        """`location` is the name of the file in messages."""
        # Absolute, as for a file that is written: the directory may change.
        super().__init__(sqlite3, self._open_now, str(path.absolute()))
        self._location = location

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection for several statements. Raises ChangedStoreError where what they read may be a mixture."""
        raw, before = self._open_now()
        with contextlib.closing(raw):
            try:
                yield Connection(self, raw)
            except Exception as error:
                # Pages of two times may have any error.
                self._check_unchanged(before, error)
                if getattr(error, "sqlite_errorname", "") in _UNSTABLE:
                    raise self._change_error() from error
                raise
            self._check_unchanged(before, None)

    def _open_now(self) -> tuple[sqlite3.Connection, _State | None]:
        """Return a connection, and the state of a file that it reads without locks."""
        attempts = 0
        while True:
            try:
                return self._try_to_open()
            except sqlite3.OperationalError as error:
                attempts += 1
                if not any(sign in str(error) for sign in ("unable to open", "readonly")):
                    raise
                if attempts == ATTEMPTS:
                    raise StoreError(f"{self._location} cannot be read: {_RIGHTS}") from error
            time.sleep(TICK_S)

    def _try_to_open(self) -> tuple[sqlite3.Connection, _State | None]:
        path, state = self._look()
        is_whole = _is_whole(path)
        if is_whole and abs(time.time() - state.modified_ns / 1e9) < TICK_S:
            # Another change now could have the same time.
            time.sleep(TICK_S)
            return self._try_to_open()
        settings = "immutable=1" if is_whole else "readonly_shm=1"
        uri = f"{path.as_uri()}?mode=ro&{settings}"
        raw = sqlite3.connect(uri, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
        try:
            # Within microseconds of its opening: where a writer has removed its log meanwhile, SQLite leaves an empty one.
            if _is_whole(path) == is_whole:
                raw.execute("PRAGMA schema_version").fetchone()
                return raw, state if is_whole else None
        except BaseException:
            raw.close()
            raise
        raw.close()
        return self._try_to_open()

    def _look(self) -> tuple[Path, _State]:
        """Return the file, behind links, and its state. Raises StoreError."""
        try:
            path = Path(self.path).resolve()
            status = path.stat()
        except FileNotFoundError:
            raise StoreError(f"{self._location} does not exist: {_HINT}") from None
        except OSError as error:
            raise StoreError(f"{self._location} cannot be read: {_RIGHTS}") from error
        if not path.is_file():
            raise StoreError(f"{self._location} is not a file: {_HINT}")
        return path, _State(status.st_ino, status.st_size, status.st_mtime_ns)

    def _check_unchanged(self, before: _State | None, cause: Exception | None) -> None:
        if before is not None and self._look()[1] != before:
            raise self._change_error() from cause

    def _change_error(self) -> ChangedStoreError:
        return ChangedStoreError(f"{self._location} was changed while it was read: read it again")


# What a reader meets that may not set up the index again, when writers come and go: https://sqlite.org/rescode.html
_UNSTABLE = ("SQLITE_READONLY_CANTINIT", "SQLITE_READONLY_CANTLOCK", "SQLITE_READONLY_RECOVERY")


_PAUSES_S = (0.0, 0.02, 0.05, 0.1)


def _lacks(index: Path, log: Path) -> bool:
    """Return whether a log has commits and no index: not for a moment, as between the sessions of a writer, but several times."""
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        if not _size(log) or index.exists():
            return False
    return True


def _is_whole(path: Path) -> bool:
    """Return whether an SQLite file has all commits: what the log beside it has is missing in it. Raises StoreError.

    The file itself is not opened for that: closing it would release the locks that SQLite has on it in this process.
    https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    journal, log, index = (Path(f"{path}{suffix}") for suffix in ("-journal", "-wal", "-shm"))
    if _lacks(index, log):
        raise StoreError(
            f"{log.name} has commits that are not in {path.name}, and cannot be read without {index.name}: "
            'run "crucible runs" once where the folder can be written'
        )
    return not _size(journal) and not _size(log) and not (log.exists() and index.exists())


def _size(path: Path) -> int:
    """Return the bytes of a file, 0 without one: its writer may remove it now."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
