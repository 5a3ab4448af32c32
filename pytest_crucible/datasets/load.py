"""Load samples from a file, a list or a function: one sample a row, unique ids, groups on all or none."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.formats import ending, reader
from pytest_crucible.datasets.objects import Rows, as_rows
from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.suggestions import closest_name

FIELDS = ("id", "input", "expected", "group")


def load_file(path: Path, *, fields: Mapping[str, str] | None = None) -> Sequence[Sample]:
    """Return the samples of a file: JSONL, a JSON array, CSV, TSV (each optionally gzipped) or Parquet, by its ending.

    `fields` maps sample fields to the file's names: `{"input": "question", "expected": "answer"}`. If no row has an id, the ids
    are "<file>-<line>". Raises DatasetError with the line.
    """
    word, read = reader(path)
    stem = path.name.removesuffix(".gz").removesuffix(ending(path))
    source = _Source(str(path), word=word, stem=stem)
    return _check_samples(source, read(path), fields or {})


def load_rows(
    rows: Rows | Callable[[], Rows], *, name: str, fields: Mapping[str, str] | None = None
) -> Sequence[Sample]:
    """Return samples from samples or mappings in memory, another library's dataset, or a function that returns one of these."""
    source_rows = rows() if callable(rows) else rows
    source = _Source(name, word="sample", stem=name)
    return _check_samples(source, enumerate(as_rows(source_rows), start=1), fields or {})


def identify(name: str, samples: Iterable[Sample]) -> Dataset:
    """Return the dataset with the hash of all fields of its samples, in order: equal hashes mean equal samples."""
    packed_samples = tuple(packed) if isinstance(packed := pack_if_many(samples), list) else packed
    digest = hashlib.sha256()
    for sample in packed_samples:
        fields = (sample.id, sample.input, sample.expected, sample.group, dict(sample.metadata))
        # Sorted, because the order of a mapping's keys is layout, not content.
        digest.update(json.dumps(fields, sort_keys=True, default=repr).encode())
    return Dataset(name=name, sha256=digest.hexdigest(), samples=packed_samples)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of samples, and the names of its rows in errors."""

    name: str
    word: str
    stem: str
    """The prefix of generated ids."""

    def where(self, number: int) -> str:
        return f"{self.word} {number} of {self.name}"


def _check_samples(source: _Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]) -> Sequence[Sample]:
    """Return the checked samples. Rows are converted one by one, so that they are never all in memory."""
    checks = SampleChecks(source)
    samples = pack_if_many(checks.watch(_samples(source, rows, fields)))
    checks.finish(samples)
    return samples


def _samples(
    source: _Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]
) -> Iterator[tuple[int, Sample, bool]]:
    """Yield (number, sample, whether the row has an id) for each row."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise DatasetError(f"fields={dict(fields)!r} maps {sorted(unknown)}: the names are {', '.join(FIELDS)}")
    names = {ours: fields.get(ours, ours) for ours in FIELDS}
    for number, row in rows:
        yield number, *_sample(source, number, row, names)


def _sample(source: _Source, number: int, row: Any, names: Mapping[str, str]) -> tuple[Sample, bool]:
    if isinstance(row, Sample):
        return row, True
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"{source.where(number)} is a {type(row).__name__}: a sample is a mapping with 'id' and 'input', or a Sample"
        )
    if names["input"] not in row:
        raise DatasetError(
            f"{source.where(number)} has no {names['input']!r} (it has {', '.join(map(repr, row)) or 'nothing'}): "
            f"{_suggest_field(names['input'], row)}"
        )
    sample_id = row.get(names["id"])
    if isinstance(sample_id, Mapping | list | tuple | set | bytes):
        raise DatasetError(
            f"{source.where(number)} has the id {sample_id!r:.60}: an id is a text or a number, such as 'q1'"
        )
    group = row.get(names["group"])
    sample = Sample(
        id=f"{source.stem}-{number}" if sample_id is None else str(sample_id),
        input=row[names["input"]],
        expected=row.get(names["expected"]),
        group=None if group is None else str(group),
        metadata={key: value for key, value in row.items() if key not in names.values()},
    )
    return sample, sample_id is not None


# Common names for the input field, in order of preference.
_ALIASES = ("question", "prompt", "problem", "query", "instruction", "text", "claim")


def _suggest_field(expected_field: str, row: Mapping[str, Any]) -> str:
    """Return a hint that names the most likely field."""
    alias = next((alias for alias in _ALIASES if alias in row), None)
    near = closest_name(expected_field, map(str, row)) or alias
    return f"name the field with fields={{'input': {repr(near) if near else '...'}}}"


# One half of a surrogate pair, as written by a broken JSON writer. UTF-8 and databases refuse it.
_HALF = re.compile("[\ud800-\udfff]")


class SampleChecks:
    """Checks that need all rows: unique ids, and ids and groups on all rows or none. Stores two numbers for each row."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._numbers = array("Q")
        self._hashes = array("q")
        self._missing: dict[str, int] = {}
        """Field -> number of the first row without it."""
        self._present: set[str] = set()

    def watch(self, rows: Iterable[tuple[int, Sample, bool]]) -> Iterator[Sample]:
        """Pass the samples on."""
        for number, sample, has_id in rows:
            self._numbers.append(number)
            # The hash differs from process to process, but these are compared within one.
            self._hashes.append(hash(sample.id))
            self._check_names(number, sample)
            for field, present in (("id", has_id), ("group", sample.group is not None)):
                if present:
                    self._present.add(field)
                else:
                    self._missing.setdefault(field, number)
            yield sample

    def _check_names(self, number: int, sample: Sample) -> None:
        if not isinstance(sample.id, str) or not sample.id.strip():
            raise DatasetError(
                f"{self._source.where(number)} has the id {sample.id!r:.60}: an id is a text that is not empty, such as 'q1'"
            )
        for name in (sample.id, sample.group or ""):
            if not name.isascii() and _HALF.search(name):
                raise DatasetError(
                    f"{self._source.where(number)} has the id or group {name!r}, which contains half of a character: correct it"
                )

    def finish(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for duplicate ids, and for an id or group that only some rows have."""
        if not samples:
            raise DatasetError(f"dataset {self._source.name!r} is empty: an experiment needs at least one sample")
        for field in ("id", "group"):
            if field in self._missing and field in self._present:
                raise DatasetError(
                    f"{self._source.where(self._missing[field])} has no {field!r} but others have one: "
                    "give it to all samples or to none"
                )
        self._check_unique(samples)

    def _check_unique(self, samples: Sequence[Sample]) -> None:
        values, counts = np.unique(np.frombuffer(self._hashes, dtype=np.int64), return_counts=True)
        # Hashes instead of ids cost 8 bytes a sample; ids are compared only where two hashes are equal.
        suspects = set(values[counts > 1].tolist())
        first_numbers: dict[str, int] = {}
        for number, id_hash, k in zip(self._numbers, self._hashes, range(len(samples)), strict=True):
            if id_hash in suspects and (name := samples[k].id) in first_numbers:
                raise DatasetError(
                    f"{self._source.where(number)} repeats the id {name!r} of {self._source.where(first_numbers[name])}: "
                    "ids must be unique"
                )
            if id_hash in suspects:
                first_numbers[samples[k].id] = number
