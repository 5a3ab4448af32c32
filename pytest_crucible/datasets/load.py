"""From a file, a list or a function to samples: one sample a row, ids unique, groups on all or none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Dataset, Sample

Rows = Iterable[Sample | Mapping[str, Any]]
FIELDS = ("id", "input", "expected", "group")


def load_file(path: Path, *, fields: Mapping[str, str] | None = None) -> list[Sample]:
    """Read a JSONL file (or .jsonl.gz) of samples.

    `fields` maps our names to the file's: `{"input": "question", "expected": "answer"}`. A file in which no row has an id
    gets "<file>-<line>" as ids. Raises DatasetError with the line.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    numbered = ((f"line {line} of {path}", f"{stem}-{line}", row) for line, row in read_rows(path))
    return _checked(_samples(numbered, fields or {}), str(path))


def load_rows(rows: Rows | Callable[[], Rows], *, name: str, fields: Mapping[str, str] | None = None) -> list[Sample]:
    """The same from samples or mappings in memory, or a function that returns them."""
    given = rows() if callable(rows) else rows
    numbered = ((f"sample {k} of {name}", f"{name}-{k}", row) for k, row in enumerate(given, start=1))
    return _checked(_samples(numbered, fields or {}), name)


def identify(name: str, samples: Iterable[Sample]) -> Dataset:
    """Give samples the hash of all that they say, in order: equal hashes are the same questions."""
    kept = tuple(samples)
    digest = hashlib.sha256()
    for sample in kept:
        fields = (sample.id, sample.input, sample.expected, sample.group, dict(sample.metadata))
        digest.update(json.dumps(fields, sort_keys=True, default=repr).encode())
    return Dataset(name=name, sha256=digest.hexdigest(), samples=kept)


def _samples(numbered: Iterable[tuple[str, str, Any]], fields: Mapping[str, str]) -> list[tuple[str, Sample, bool]]:
    """(where, sample, whether its id was given) for each row."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise DatasetError(f"fields={dict(fields)!r} maps {sorted(unknown)}: the names are {', '.join(FIELDS)}")
    names = {ours: fields.get(ours, ours) for ours in FIELDS}
    return [(where, *_sample(where, fallback, row, names)) for where, fallback, row in numbered]


def _sample(where: str, fallback: str, row: Any, names: Mapping[str, str]) -> tuple[Sample, bool]:
    if isinstance(row, Sample):
        return row, True
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"{where} is a {type(row).__name__}: a sample is a mapping with 'id' and 'input', or a Sample"
        )
    if names["input"] not in row:
        raise DatasetError(
            f"{where} has no {names['input']!r} (it has {', '.join(map(repr, row)) or 'nothing'}): "
            "name the field with fields={'input': ...}"
        )
    given = row.get(names["id"])
    group = row.get(names["group"])
    sample = Sample(
        id=fallback if given is None else str(given),
        input=row[names["input"]],
        expected=row.get(names["expected"]),
        group=None if group is None else str(group),
        metadata={key: value for key, value in row.items() if key not in names.values()},
    )
    return sample, given is not None


def _checked(rows: list[tuple[str, Sample, bool]], name: str) -> list[Sample]:
    if not rows:
        raise DatasetError(f"dataset {name!r} is empty: an experiment needs at least one sample")
    _all_or_none([(where, has_id) for where, _, has_id in rows], "id")
    _all_or_none([(where, sample.group is not None) for where, sample, _ in rows], "group")
    seen: dict[str, str] = {}
    for where, sample, _ in rows:
        if sample.id in seen:
            raise DatasetError(f"{where} repeats the id {sample.id!r} of {seen[sample.id]}: ids must be unique")
        seen[sample.id] = where
    return [sample for _, sample, _ in rows]


def _all_or_none(rows: list[tuple[str, bool]], field: str) -> None:
    """An id or a group on some rows only is a mistake, and guessing the rest would hide it."""
    lacking = [where for where, present in rows if not present]
    if lacking and len(lacking) < len(rows):
        raise DatasetError(f"{lacking[0]} has no {field!r} but others have one: give it to all samples or to none")
