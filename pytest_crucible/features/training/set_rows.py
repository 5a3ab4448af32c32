"""Makes the rows of a training file and of its holdout from selected replies and old rows."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pytest_crucible.datasets.duplicates import find_duplicates
from pytest_crucible.features.training.set_formats import (
    FileRow,
    TrainingRow,
    TrainingTask,
    find_format,
    fits_format,
    read_row,
    text_of,
    with_messages,
)
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.row_files import read_rows
from pytest_crucible.records.serialize import to_plain

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


EQUAL, NEAR = "equal to an earlier row", "differs from an earlier row in at most 5 % of the words"


def drop_duplicates(rows: Sequence[TrainingRow], left_out: Counter[str]) -> list[TrainingRow]:
    """Return the rows without those that repeat an earlier one, which are counted."""
    samples: dict[int, set[str]] = {}
    for row in rows:
        if row.template is not None:
            samples.setdefault(row.template, set()).add(row.own)
    shared = {template for template, texts in samples.items() if len(texts) > 1}
    kept = []
    for row, duplicate in zip(rows, find_duplicates([_texts(row, shared) for row in rows]), strict=True):
        if duplicate is None:
            kept.append(row)
        else:
            left_out[EQUAL if duplicate.is_equal else NEAR] += 1
    return kept


def repeats_of(new: Sequence[FileRow], old: Sequence[FileRow]) -> dict[int, str]:
    """Return the positions of old rows that repeat a new or an earlier old one, and why they do."""
    duplicates = find_duplicates([_file_texts(row) for row in (*new, *old)])[len(new) :]
    return {
        position: EQUAL if duplicate.is_equal else NEAR
        for position, duplicate in enumerate(duplicates)
        if duplicate is not None
    }


def _texts(row: TrainingRow, shared: set[int]) -> tuple[str, ...]:
    is_template = row.template in shared
    prompt = row.own if is_template else text_of(row.prompt)
    template = str(row.template) if is_template else ""
    return (template, prompt, row.completion, row.rejected or "", str(row.label))


def _file_texts(row: FileRow) -> tuple[str, ...]:
    rejected = "" if row.rejected is None else text_of(row.rejected)
    return (text_of(row.prompt), text_of(row.completion), rejected, str(row.label))


Item = TypeVar("Item")


def held_out_groups(rows: Sequence[TrainingRow], share: float, seed: int) -> frozenset[str]:
    """Return the groups of the holdout: their share is rounded, and neither file is left without a group.

    The draw depends on the groups' names alone, so that a group stays in its file when other rows change.
    """
    groups = list(dict.fromkeys(row.group for row in rows))
    count = round(share * len(groups))
    if share > 0 and len(groups) > 1:
        count = min(max(count, 1), len(groups) - 1)
    return frozenset(sorted(groups, key=lambda group: draw_key(seed, group))[:count])


def count_replayed(rows: int, share: float, available: int) -> int:
    """Return the number of old rows that makes the share of a file with `rows` new ones.

    >>> count_replayed(80, 0.2, available=1000), count_replayed(80, 0.2, available=5)
    (20, 5)
    """
    return min(round(rows * share / (1 - share)), available)


def draw_replayed(texts: Sequence[str], count: int, seed: int) -> list[int]:
    """Return the positions of the drawn rows, in their order in the file."""
    order = sorted(range(len(texts)), key=lambda position: (draw_key(seed, texts[position]), position))
    return sorted(order[:count])


def spread(new: Sequence[Item], old: Sequence[Item]) -> list[Item]:
    """Return the new rows with the old ones among them, at equal distances.

    >>> spread([1, 2, 3, 4], [-1, -2])
    [1, -1, 2, 3, -2, 4]
    """
    places = [((number + 0.5) / len(new), 0, row) for number, row in enumerate(new)]
    places += [((number + 0.5) / len(old), 1, row) for number, row in enumerate(old)]
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


def draw_key(seed: int, text: str) -> str:
    """Return a text that orders rows by chance, equally on every machine."""
    return hashlib.sha256(f"{seed}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
CARD, ORIGINS, HOLDOUT = ".card.json", ".origins.jsonl", ".holdout"


def origin_lines(origins: Sequence[Mapping[str, Any]]) -> str:
    """Return the origins as JSON Lines: the first is that of the file's first line."""
    return "".join(f"{json_line({'line': line, **origin})}\n" for line, origin in enumerate(origins, start=1))


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, with lone surrogates escaped, which UTF-8 cannot encode."""
    text = _ENCODE(row)
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def file_sha256(text: str) -> str:
    """Return the SHA-256 of a text as written to a file."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def describe_file(text: str, origins: Sequence[Mapping[str, Any]], origins_text: str) -> dict[str, Any]:
    """Return a card's facts about one file: rows, samples and hashes. Without a date, equal files have equal cards."""
    samples = {(origin.get("experiment"), origin.get("sample")) for origin in origins if "sample" in origin}
    return {
        "sha256": file_sha256(text),
        "origins_sha256": file_sha256(origins_text),
        "rows": len(origins),
        "samples": len(samples),
        "gate_rows": sum(bool(origin.get("gate")) for origin in origins),
    }


def card_text(card: Mapping[str, Any]) -> str:
    """Return the text of a card."""
    return json.dumps(to_plain(card), indent=1, ensure_ascii=False) + "\n"


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
