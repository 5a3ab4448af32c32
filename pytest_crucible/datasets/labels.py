"""Files of people's labels of replies, which `crucible view --labels` writes: a row for each reply, two columns for each person.

A row is found again by experiment, sample, variant and the reply's text, so that a label never counts for another reply.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError, describe_type, suggest
from pytest_crucible.records.row_files import records
from pytest_crucible.records.views import unguard_cell

KEY_COLUMNS = ("experiment", "sample", "variant", "reply_sha256")
STRATUM, STRATUM_SIZE = "stratum", "stratum_size"
ID_COLUMNS = ("run", *KEY_COLUMNS, STRATUM, STRATUM_SIZE)
NOTE = " note"
"""Ends the name of the second column of a person. The first one has the labels."""
SKIP = "skip"
"""The label of a reply that the person looked at and did not decide."""


@dataclass(frozen=True, slots=True)
class ReplyKey:
    """The columns by which the row of a reply is found again."""

    experiment: str
    sample: str
    variant: str
    """Empty for the original sample."""
    reply_sha256: str


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label of one reply."""

    text: str
    weight: float
    """How many replies it stands for: those of its stratum, over the labels in it."""


def hash_reply(text: str) -> str:
    """Return the first 128 bits of the SHA-256 of a reply's text, as hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def label_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns with labels, which are named after people: each has a column for notes beside it.

    >>> label_columns(["run", "sample", "anna", "anna note", "checked"])
    ['anna']
    """
    return [name for name in columns if name + NOTE in columns]


def split_person(name: str | Path) -> tuple[str, str]:
    """Return the file and the person that an argument names, `labels.csv:anna`; the person is empty without one.

    >>> split_person("labels.csv:anna"), split_person("labels.csv")
    (('labels.csv', 'anna'), ('labels.csv', ''))
    """
    path, colon, person = str(name).rpartition(":")
    return (path, person) if colon and path.endswith(".csv") else (str(name), "")


def read_labels(path: Path, person: str = "") -> Mapping[ReplyKey, Label]:
    """Return a person's labels without those that skip. Raises SpecError, also where it is not clear whose."""
    table = read_label_table(path)
    column = _choose_column(path, table.columns, person)
    labels = {key_of(row): row for row in table.rows if row[column] not in ("", SKIP)}
    counts = Counter(row[STRATUM] for row in labels.values())
    return {key: Label(row[column], int(row[STRATUM_SIZE]) / counts[row[STRATUM]]) for key, row in labels.items()}


def repair_expected(samples: Sequence[Sample], path: Path, person: str, experiment: str) -> Sequence[Sample]:
    """Return samples with a person's labels, by default those in the column `expected`, in place of their expected values.

    Labels of replies to variants repair nothing. Raises SpecError for two values of a sample.
    """
    repairs: dict[str, str] = {}
    for key, label in read_labels(path, person or "expected").items():
        if (
            key.experiment == experiment
            and not key.variant
            and repairs.setdefault(key.sample, label.text) != label.text
        ):
            raise SpecError(
                f"{path} has two expected values of sample {key.sample!r:.80}: make the labels of its replies one"
            )
    if not repairs:
        return samples
    return pack_if_many(
        replace(sample, expected=_as_type(sample, repairs[sample.id])) if sample.id in repairs else sample
        for sample in samples
    )


def _as_type(sample: Sample, text: str) -> Any:
    """Return a repaired value as the type of the value before. Raises SpecError where a text cannot be that."""
    if sample.expected is None or isinstance(sample.expected, str):
        return text
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(sample.expected, int | float) and isinstance(value, int | float):
            return value
    before = describe_type(sample.expected)
    raise SpecError(
        f"sample {sample.id!r:.80} has {before} as its expected value, and the label {text!r:.80} is a text: edit the dataset"
    )


@dataclass(frozen=True, slots=True)
class LabelTable:
    """A file of labels as it is: all its columns and rows, also those of other programs."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]
    """Cells as texts, without the apostrophes that guard formulas."""


def read_label_table(path: Path) -> LabelTable:
    """Return the columns and rows of a file. Raises SpecError for another table, with the line."""
    if not path.is_file():
        raise SpecError(f"{path} does not exist: write it with crucible view RUN --labels {path.name}")
    lines = records(path, csv.excel)
    _, columns = next(lines, (1, []))
    missing = [name for name in ID_COLUMNS if columns.count(name) != 1]
    if missing or len(set(columns)) < len(columns):
        wrong = f"one column {missing[0]!r}" if missing else "a name of its own for each column"
        raise SpecError(f"{path} is not a file of labels: expected {wrong}; name another file, which is then begun")
    rows, keys = [], set[ReplyKey]()
    for line, cells in lines:
        row = dict(zip(columns, map(unguard_cell, cells), strict=False))
        if (problem := _find_problem(row, len(cells), len(columns), keys)) is not None:
            raise SpecError(f"line {line} of {path} {problem}: restore the line, or name another file")
        keys.add(key_of(row))
        rows.append(row)
    return LabelTable(columns, rows)


def key_of(row: Mapping[str, str]) -> ReplyKey:
    """Return the key of a row."""
    return ReplyKey(*(row[name] for name in KEY_COLUMNS))


def _find_problem(row: Mapping[str, str], cells: int, columns: int, keys: Container[ReplyKey]) -> str | None:
    if cells != columns:
        return f"has {cells} cells under {columns} columns"
    if not re.fullmatch("[1-9][0-9]{0,11}", row[STRATUM_SIZE]):
        return f"has the {STRATUM_SIZE} {row[STRATUM_SIZE]!r:.40}, which is not a number of replies"
    return "has a reply that an earlier line has" if key_of(row) in keys else None


def _choose_column(path: Path, columns: Sequence[str], person: str) -> str:
    people = label_columns(columns)
    if person in people:
        return person
    if not person and len(people) == 1:
        return people[0]
    names = ", ".join(people) or "nobody"
    wrong = f"no labels of {person!r}" if person else f"labels of {names}"
    hint = suggest(
        person, people, otherwise=f"name one person of it, as in {path.name}:{people[0] if people else 'anna'}"
    )
    raise SpecError(f"{path} has {wrong}: {hint}")
