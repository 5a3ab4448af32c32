"""Makes the rows of a training file and of its holdout from selected replies and old rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records import TrainingRow, TrainingTask
from pytest_crucible.records.errors import SpecError
from pytest_crucible.training_sets.card import json_line
from pytest_crucible.training_sets.division import count_replayed, draw_replayed, held_out_groups, spread
from pytest_crucible.training_sets.duplicates import drop_duplicates, repeats_of
from pytest_crucible.training_sets.formats import find_format, fits_format, with_messages
from pytest_crucible.training_sets.reading import FileRow, read_row

Line = tuple[str, Mapping[str, Any]]
"""A line of the file, and its origin."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The form of a training set: what is trained, the file format, and how rows are divided."""

    task: TrainingTask
    format: str
    holdout: float = 0.0
    replay: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class TrainingSet:
    """The lines of the training file and of the holdout."""

    lines: list[Line]
    holdout: list[Line]
    replayed: int
    left_out: Counter[str] = field(default_factory=Counter)


def build_set(rows: Sequence[TrainingRow], shape: Shape, old: Sequence[Line], left_out: Counter[str]) -> TrainingSet:
    """Return the lines of the files. `old` are lines to replay, in the same format. Counts the rows that are left out."""
    fitting = [row for row in rows if fits_format(row, shape.format, shape.task)]
    left_out[f"{shape.format} has no {shape.task} rows of longer conversations"] += len(rows) - len(fitting)
    kept = _alike(drop_duplicates(fitting, left_out))
    groups = held_out_groups(kept, shape.holdout, shape.seed)
    write = find_format(shape.format, shape.task)
    new = [_line(row, write) for row in kept if row.group not in groups]
    held_out = [_line(row, write) for row in kept if row.group in groups]
    replayed = _replay([*held_out, *new], old, len(new), shape, left_out) if shape.replay else []
    lines = spread(new, replayed) if replayed else new
    return TrainingSet(lines, held_out, len(replayed), left_out)


def _line(row: TrainingRow, write: Callable[[TrainingRow], Any]) -> Line:
    return json_line(write(row)), row.origin


def _alike(rows: list[TrainingRow]) -> list[TrainingRow]:
    """Return rows whose prompts are all texts or all messages: libraries read a column as one type."""
    if all(isinstance(row.prompt, str) for row in rows):
        return rows
    return [as_messages(row) for row in rows]


def as_messages(row: TrainingRow) -> TrainingRow:
    """Return the row with its prompt as messages."""
    return row._replace(prompt=with_messages(row.prompt)) if isinstance(row.prompt, str) else row


def _replay(new: Sequence[Line], old: Sequence[Line], count: int, shape: Shape, left_out: Counter[str]) -> list[Line]:
    """Return old lines for the training file, without those that repeat a new row of it or of the holdout."""
    rows, old_rows = _parse(new), _parse(old)
    if len({isinstance(row.prompt, str) for row in (*rows, *old_rows)}) > 1:
        raise SpecError(
            "the old rows and the new ones differ in their prompts, texts in one and messages in the other: "
            "write the old file again, with prompts of the same type"
        )
    repeats = repeats_of(rows, old_rows)
    for reason in repeats.values():
        left_out[f"replayed row: {reason}"] += 1
    usable = [line for position, line in enumerate(old) if position not in repeats]
    drawn = draw_replayed([text for text, _ in usable], count_replayed(count, shape.replay, len(usable)), shape.seed)
    return [usable[position] for position in drawn]


def _parse(lines: Sequence[Line]) -> list[FileRow]:
    rows = (read_row(json.loads(text)) for text, _ in lines)
    return [row for row in rows if row is not None]
