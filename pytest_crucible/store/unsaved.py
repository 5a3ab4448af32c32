"""Rows that a database would not take any more, in a file, until the next run takes them in.

The file lies beside an SQLite store, or where that is full or the store is a server's, in the directory for temporary files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, select

from pytest_crucible.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.inserting import insert_many
from pytest_crucible.store.opening import explained, shown

Rows = tuple[Table, bool, Sequence[Mapping[str, Any]]]
"""Of one table, and whether they take the place of what is there."""


def keep(location: str, run: str, rows: Iterable[Rows]) -> Path | None:
    """Write them down; None where no directory takes them."""
    lines = [json.dumps({"run": run})]
    lines += [json.dumps([table.name, overwrite, list(map(dict, many))]) for table, overwrite, many in rows if many]
    for folder in _folders(location):
        with contextlib.suppress(OSError):
            return _write(folder, "\n".join(lines) + "\n")
    return None


def take_in(engine: Engine, location: str) -> int:
    """Enter what was written down of runs that this store has; how many files that were. Raises StoreError."""
    taken = 0
    for path in _files(location):
        ours = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            path.rename(ours)
            taken += _take(engine, location, ours, path.with_suffix(".jsonl"))
    return taken


def _take(engine: Engine, location: str, path: Path, given: Path) -> bool:
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        with explained(shown(location)), engine.begin() as connection:
            known = _knows(connection, json.loads(head)["run"])
            for name, overwrite, many in map(json.loads, lines) if known else ():
                table = schema.metadata.tables[name]
                insert_many(connection, table, many, over=overwrite)
    except BaseException as error:
        path.rename(given)
        if isinstance(error, StoreError | ValueError | KeyError):
            raise StoreError(
                f"{str(given)!r} has answers that run store {shown(location)!r} could not take and cannot now ({error}): "
                "move it away to go on without them"
            ) from error
        raise
    path.unlink() if known else path.rename(given)
    return known


def _knows(connection: Connection, run: str) -> bool:
    """A store that was made anew is another one: the same keys are other arms there."""
    return connection.execute(select(schema.runs.c.id).where(schema.runs.c.id == run)).first() is not None


def _folders(location: str) -> Iterator[Path]:
    if "://" not in location:
        yield Path(f"{location}.unsaved")
        location = str(Path(location).resolve())
    name = hashlib.sha256(location.encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else 0
    yield Path(tempfile.gettempdir()) / f"pytest-crucible-{user}-{name}.unsaved"


def _files(location: str) -> list[Path]:
    found = [path for folder in _folders(location) if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path for path in found if path.suffix == ".jsonl" or _is_orphan(path)]


def _is_orphan(path: Path) -> bool:
    """Was the process killed that was about to take it in? Then it is anybody's again."""
    number = path.suffix.removeprefix(".")
    if not number.isdigit() or os.name != "posix":  # elsewhere a signal of 0 is one
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is there, and somebody else's
        return False
    return False


def _write(folder: Path, text: str) -> Path:
    """All of it on the disk, or nothing."""
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
