"""Which file is written how."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Table

Write = Callable[[Table, IO[bytes]], int]
FORMATS: Mapping[str, str] = {
    "csv": "pytest_crucible.exports.text:write_csv",
    "jsonl": "pytest_crucible.exports.text:write_jsonl",
    "parquet": "pytest_crucible.exports.parquet:write_parquet",
}


def writer(extension: str) -> Write:
    """What writes files of that extension (without its dot). Raises SpecError."""
    if extension not in FORMATS:
        given = f"ends in '.{extension}'" if extension else "has no extension"
        raise SpecError(f"the file {given}: write one of {', '.join(f'.{name}' for name in FORMATS)}")
    module, _, name = FORMATS[extension].partition(":")
    found: Write = getattr(importlib.import_module(module), name)
    return found


def write_file(table: Table, path: Path) -> int:
    """Rows written. The file appears whole or not at all. Raises SpecError."""
    write = writer(path.suffix.removeprefix("."))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            count = write(table, file)
        draft.replace(path)
    except OSError as error:
        raise SpecError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return count
