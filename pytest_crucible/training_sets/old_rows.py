"""Reads old rows to mix into a new training file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.formats import read_rows
from pytest_crucible.records import TrainingTask
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.training_sets.build import Line
from pytest_crucible.training_sets.card import json_line
from pytest_crucible.training_sets.reading import FileRow, read_row, text_of

FIELDS: Mapping[tuple[str, TrainingTask], frozenset[str]] = {
    ("trl", "sft"): frozenset({"prompt", "completion"}),
    ("trl", "dpo"): frozenset({"prompt", "chosen", "rejected"}),
    ("trl", "kto"): frozenset({"prompt", "completion", "label"}),
    ("openai", "sft"): frozenset({"messages"}),
    ("openai", "dpo"): frozenset({"input", "preferred_output", "non_preferred_output"}),
    ("tinker", "sft"): frozenset({"messages"}),
    ("tinker", "dpo"): frozenset({"comparison", "label"}),
    ("axolotl", "sft"): frozenset({"messages"}),
    ("axolotl", "dpo"): frozenset({"messages", "chosen", "rejected"}),
    ("axolotl", "kto"): frozenset({"system", "prompt", "completion", "label"}),
}
"""The fields of a row in each format."""


def read_old_rows(path: Path, sha256: str, name: str, task: TrainingTask, origins: Sequence[str]) -> list[Line]:
    """Return the lines of an old training file with their origins. `origins` are JSON Lines where the store knows the file.

    Raises DatasetError for a row of another format.
    """
    expected, lines = FIELDS[name, task], list[Line]()
    for number, row in read_rows(path, what="training data"):
        if frozenset(row) != expected or not _is_readable(row):
            raise DatasetError(
                f"line {number} of {path} has {', '.join(sorted(row)) or 'nothing'}, and a {task} row of --format {name} has "
                f"{', '.join(sorted(expected))}: replay a file of the same format"
            )
        known = json.loads(origins[number - 1]) if number <= len(origins) else {}
        lines.append((json_line(row), {**known, "file": path.name, "file_sha256": sha256, "line_of_file": number}))
    return lines


def prompts_of(lines: Sequence[Line]) -> list[str]:
    """Return the text of each line's prompt."""
    rows = (read_row(json.loads(text)) for text, _ in lines)
    return [text_of(row.prompt) for row in rows if row is not None]


def _is_readable(row: Mapping[str, Any]) -> bool:
    read = read_row(row)
    return read is not None and all(map(_is_text, _replies(read))) and _is_text(read.prompt)


def _replies(row: FileRow) -> list[Any]:
    return [row.completion] if row.rejected is None else [row.completion, row.rejected]


def _is_text(value: Any) -> bool:
    try:
        text_of(value)
    except TypeError:
        return False
    return True
