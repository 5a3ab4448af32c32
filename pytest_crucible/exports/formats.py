"""File formats of exports: the writer for each file name ending."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from pytest_crucible.records import ExportTable
from pytest_crucible.records.errors import SpecError

Write = Callable[[ExportTable, IO[bytes]], int]
FORMATS: Mapping[str, str] = {
    "csv": "pytest_crucible.exports.text:write_csv",
    "jsonl": "pytest_crucible.exports.text:write_jsonl",
    "parquet": "pytest_crucible.exports.parquet:write_parquet",
}


def find_writer(extension: str) -> Write:
    """Return the writer for an extension without its dot. Raises SpecError."""
    if extension not in FORMATS:
        problem = f"ends in '.{extension}'" if extension else "has no extension"
        raise SpecError(f"the file {problem}: write one of {', '.join(f'.{name}' for name in FORMATS)}")
    module, _, name = FORMATS[extension].partition(":")
    write: Write = getattr(importlib.import_module(module), name)
    return write


def write_file(table: ExportTable, path: Path) -> int:
    """Write the table and return the number of rows. The file is written completely or not at all. Raises SpecError."""
    write = find_writer(path.suffix.removeprefix("."))
    # Beside the target, so that the replacement is atomic; with the process id, so that two exports share no draft.
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
