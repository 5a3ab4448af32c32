"""Spill files: rows that the database refused, in a file, until the next run enters them.

The file is next to an SQLite store. If that disk is full, or the store is a server's, it is in the user's folder for temporary
files. Both folders are closed to other users, and a file is signed with the key that the store has: rows of anybody else, and of
another store, are never entered.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.files import is_own_folder, own_folder, runtime_folder
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, Database
from pytest_crucible.store.opening import explain_errors, redact_location
from pytest_crucible.store.table import Table

Rows = tuple[Table, bool, Sequence[Mapping[str, Any]]]
"""A table, whether rows replace those with the same key, and the rows."""


def written_tables() -> dict[str, Table]:
    """Return the tables that a writer writes, and no other, by name."""
    tables = (
        *(schema.texts, schema.replies, schema.messages, schema.calls, schema.observations, schema.lost),
        *(schema.events, schema.reply_cache, schema.known_adapters),
    )
    return {**{table.name: table for table in tables}, **schema.unit_tables()}


def write_spill_file(location: str, key: bytes, run: str, rows: Iterable[Rows]) -> Path | None:
    """Write signed rows to a file and return its path; None if no folder can be written. `key` is the store's."""
    lines = [
        json.dumps(
            [table.name, overwrite, list(map(dict, many))], default=lambda value: base64.b64encode(value).decode()
        )
        for table, overwrite, many in rows
        if many
    ]
    body = "\n".join([json.dumps({"run": run}), *lines]) + "\n"
    for folder in (_folder_beside, _runtime_folder):
        with contextlib.suppress(OSError):
            return _write(own_folder(folder(location)), f"{_signature(key, body)}\n{body}")
    return None


def load_spill_files(database: Database, key: bytes, location: str) -> int:
    """Enter the files of runs that this store has, and return how many there were. Raises StoreError."""
    loaded = 0
    for path in waiting_rows(location):
        ours = path.with_suffix(f".{os.getpid()}")
        # Another process was faster.
        with contextlib.suppress(FileNotFoundError):
            path.rename(ours)
            loaded += _take(database, key, location, ours, path.with_suffix(".jsonl"))
    return loaded


def _take(database: Database, key: bytes, location: str, path: Path, original: Path) -> bool:
    try:
        with explain_errors(redact_location(location)), database.begin() as connection:
            head, *lines = _read_signed(path, key)
            is_ours = _knows(connection, json.loads(head)["run"])
            # The rows of a session on a cluster came with those of features about its blocks.
            tables = {**written_tables(), **{table.name: table for table in schema.feature_tables()}}
            for name, overwrite, many in map(json.loads, lines) if is_ours else ():
                if (table := tables.get(name)) is None:
                    raise ValueError(f"table {name!r} is not one that waits in files")
                connection.insert(table, [_with_bytes(table, row) for row in many], over=overwrite)
    except BaseException as error:
        path.rename(original)
        if isinstance(error, StoreError | ValueError | KeyError):
            raise StoreError(
                f"{str(original)!r} has replies that run store {redact_location(location)!r} still cannot store ({error}): "
                "move the file away to continue without them"
            ) from error
        raise
    path.unlink() if is_ours else path.rename(original)
    return is_ours


def _read_signed(path: Path, key: bytes) -> list[str]:
    """Return the lines of a file after its signature. Raises ValueError for a file that this store did not write."""
    signature, _, body = path.read_text(encoding="utf-8").partition("\n")
    if not hmac.compare_digest(signature.encode(), _signature(key, body).encode()):
        raise ValueError("it was not written for this store, or was changed since")
    return body.splitlines()


def _signature(key: bytes, body: str) -> str:
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def _with_bytes(table: Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with the values of binary columns decoded: JSON holds them as base64 text."""
    names = [name for name, value in row.items() if value is not None and table.type_of(name) == "BLOB"]
    return {**row, **{name: base64.b64decode(row[name]) for name in names}} if names else row


def _knows(connection: Connection, run: str) -> bool:
    """Return whether the store has the run. In a store that was created again, the same keys are other arms."""
    return connection.first("SELECT id FROM runs WHERE id = :run", run=run) is not None


def _folder_beside(location: str) -> Path:
    """Return the folder beside an SQLite store. Raises OSError for a store on a server."""
    if "://" in location:
        raise OSError("a server's store has no folder beside it")
    return Path(f"{location}.unsaved")


def _runtime_folder(location: str) -> Path:
    """Return the store's folder among this user's temporary files. Raises NotPrivateError, which is an OSError."""
    where = location if "://" in location else str(Path(location).resolve())
    return runtime_folder() / f"{hashlib.sha256(where.encode()).hexdigest()[:16]}.unsaved"


def _folders(location: str) -> Iterator[Path]:
    """Yield the folders that may have files. What another user has made, or can reach, has none of ours."""
    for folder in (_folder_beside, _runtime_folder):
        with contextlib.suppress(OSError):
            if is_own_folder(folder(location)):
                yield folder(location)


def waiting_rows(location: str) -> list[Path]:
    """Return the files with rows that wait for a store."""
    candidates = [path for folder in _folders(location) for path in sorted(folder.iterdir())]
    return [path for path in candidates if path.suffix == ".jsonl" or _is_orphan(path)]


def _is_orphan(path: Path) -> bool:
    """Return whether the process that was entering the file was killed, so that another may enter it."""
    number = path.suffix.removeprefix(".")
    # On Windows a signal of 0 would end the process.
    if not number.isdigit() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it exists, and belongs to another user
        return False
    return False


def _write(folder: Path, text: str) -> Path:
    """Write the whole file to the disk, or nothing."""
    path = folder / f"{time.time_ns()}-{os.getpid()}.jsonl"
    draft = path.with_suffix(".draft")
    try:
        # No other user reaches into the folder; the file's own mode is for copies of it.
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return path
