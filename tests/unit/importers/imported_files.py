"""The files that the harnesses themselves have written, read whole or after a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import ImportedFile, Results, Row

FILES = Path(__file__).parents[2] / "peers" / "files"


def find(pattern: str | Path) -> Path:
    if isinstance(pattern, Path):
        return pattern
    (path,) = FILES.glob(pattern)
    return path


def read_arm(pattern: str | Path, number: int = 0, **options: Any) -> Results:
    return read(find(pattern), **options).results[number]


def find_row(results: Results, sample: str, repeat: int = 0) -> Row:
    """The row of a sample by its id, or by its question."""
    (row,) = [row for row in results.rows
              if (row.sample == sample or row.input == {"question": sample}) and row.repeat == repeat]  # fmt: skip
    return row


def field(row: Row, name: str) -> Any:
    """A field of a row or of its reply; `reply` is the text of the reply."""
    if name == "reply":
        return row.reply and row.reply.text
    return getattr(row if hasattr(row, name) else row.reply, name)


def read_changed(folder: Path, pattern: str, change: Callable[[Any], Any], name: str = "v2.json") -> ImportedFile:
    """Read a copy of a JSON file after a change of its document."""
    document = json.loads(find(pattern).read_text(encoding="utf-8"))
    change(document)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return read(folder / name)
