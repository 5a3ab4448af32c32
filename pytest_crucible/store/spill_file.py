"""Spill files: rows that the database refused, in a file, until the next run enters them.

The file is next to an SQLite store. If that disk is full, or the store is a server's, it is in the directory for temporary files.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, LargeBinary, Table, select

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.bulk_insert import insert_many
from pytest_crucible.store.engine import explain_errors, redact_location

Rows = tuple[Table, bool, Sequence[Mapping[str, Any]]]
"""A table, whether rows replace those with the same key, and the rows."""


def write_spill_file(location: str, run: str, rows: Iterable[Rows]) -> Path | None:
    """Write rows to a file and return its path; None if no directory can be written."""
    lines = [json.dumps({"run": run})]
    lines += [
        json.dumps([table.name, overwrite, list(map(dict, many))], default=_binary)
        for table, overwrite, many in rows
        if many
    ]
    for folder in _folders(location):
        with contextlib.suppress(OSError):
            return _write(folder, "\n".join(lines) + "\n")
    return None


def load_spill_files(engine: Engine, location: str) -> int:
    """Enter the files of runs that this store has, and return how many there were. Raises StoreError."""
    loaded = 0
    for path in _files(location):
        ours = path.with_suffix(f".{os.getpid()}")
        # Another process was faster.
        with contextlib.suppress(FileNotFoundError):
            path.rename(ours)
            loaded += _take(engine, location, ours, path.with_suffix(".jsonl"))
    return loaded


def _take(engine: Engine, location: str, path: Path, original: Path) -> bool:
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        with explain_errors(redact_location(location)), engine.begin() as connection:
            is_ours = _knows(connection, json.loads(head)["run"])
            for name, overwrite, many in map(json.loads, lines) if is_ours else ():
                table = schema.metadata.tables[name]
                insert_many(connection, table, [_with_bytes(table, row) for row in many], over=overwrite)
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


def _binary(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _with_bytes(table: Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with the values of binary columns decoded: JSON holds them as base64 text."""
    names = [name for name, value in row.items() if value is not None and isinstance(table.c[name].type, LargeBinary)]
    return {**row, **{name: base64.b64decode(row[name]) for name in names}} if names else row


def _knows(connection: Connection, run: str) -> bool:
    """Return whether the store has the run. In a store that was created again, the same keys are other arms."""
    return connection.execute(select(schema.runs.c.id).where(schema.runs.c.id == run)).first() is not None


def _folders(location: str) -> Iterator[Path]:
    if "://" not in location:
        yield Path(f"{location}.unsaved")
        location = str(Path(location).resolve())
    name = hashlib.sha256(location.encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else 0
    yield Path(tempfile.gettempdir()) / f"pytest-crucible-{user}-{name}.unsaved"


def _files(location: str) -> list[Path]:
    candidates = [path for folder in _folders(location) if folder.is_dir() for path in sorted(folder.iterdir())]
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
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{time.time_ns()}-{os.getpid()}.jsonl"
    draft = path.with_suffix(".draft")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return path
