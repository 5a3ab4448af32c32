"""From a file, a list or a function to samples: one sample a row, ids unique, groups on all or none."""

from __future__ import annotations

import difflib
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
from pytest_crucible.datasets.packed import kept
from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Dataset, Sample

FIELDS = ("id", "input", "expected", "group")


def load_file(path: Path, *, fields: Mapping[str, str] | None = None) -> Sequence[Sample]:
    """Read a file of samples: JSONL, a JSON array, CSV, TSV (each perhaps gzipped) or Parquet, by its ending.

    `fields` maps our names to the file's: `{"input": "question", "expected": "answer"}`. A file in which no row has an id
    gets "<file>-<line>" as ids. Raises DatasetError with the line.
    """
    word, read = reader(path)
    stem = path.name.removesuffix(".gz").removesuffix(ending(path))
    source = _Source(str(path), word=word, stem=stem)
    return _checked(source, read(path), fields or {})


def load_rows(
    rows: Rows | Callable[[], Rows], *, name: str, fields: Mapping[str, str] | None = None
) -> Sequence[Sample]:
    """The same from samples or mappings in memory, another library's dataset, or a function that returns one of these."""
    given = rows() if callable(rows) else rows
    source = _Source(name, word="sample", stem=name)
    return _checked(source, enumerate(as_rows(given), start=1), fields or {})


def identify(name: str, samples: Iterable[Sample]) -> Dataset:
    """Give samples the hash of all that they say, in order: equal hashes are the same questions."""
    keeps = tuple(found) if isinstance(found := kept(samples), list) else found
    digest = hashlib.sha256()
    for sample in keeps:
        fields = (sample.id, sample.input, sample.expected, sample.group, dict(sample.metadata))
        digest.update(json.dumps(fields, sort_keys=True, default=repr).encode())
    return Dataset(name=name, sha256=digest.hexdigest(), samples=keeps)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where samples come from, and what complaints call them."""

    name: str
    word: str
    stem: str
    """The beginning of the ids of samples that have none."""

    def where(self, number: int) -> str:
        return f"{self.word} {number} of {self.name}"


def _checked(source: _Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]) -> Sequence[Sample]:
    """All samples, one after the other, so that many rows are never in memory as rows."""
    checks = _Checks(source)
    samples = kept(checks.seen(_samples(source, rows, fields)))
    checks.finish(samples)
    return samples


def _samples(
    source: _Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]
) -> Iterator[tuple[int, Sample, bool]]:
    """(number, sample, whether its id was given) for each row."""
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
            f"{_hint(names['input'], row)}"
        )
    given = row.get(names["id"])
    group = row.get(names["group"])
    sample = Sample(
        id=f"{source.stem}-{number}" if given is None else str(given),
        input=row[names["input"]],
        expected=row.get(names["expected"]),
        group=None if group is None else str(group),
        metadata={key: value for key, value in row.items() if key not in names.values()},
    )
    return sample, given is not None


_ALIASES = ("question", "prompt", "problem", "query", "instruction", "text", "claim")
"""What others call the input, in this order."""


def _hint(wanted: str, row: Mapping[str, Any]) -> str:
    """How to name the field that was most likely meant."""
    near = difflib.get_close_matches(wanted, map(str, row), n=1) or [one for one in _ALIASES if one in row]
    return f"name the field with fields={{'input': {repr(near[0]) if near else '...'}}}"


_HALF = re.compile("[\ud800-\udfff]")
"""One of a surrogate pair, as a broken JSON writer leaves it."""


class _Checks:
    """What is known of all rows only when the last one was read. Of each row it keeps two numbers."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._numbers = array("Q")
        self._hashes = array("q")
        self._lacking: dict[str, int] = {}
        """Field -> number of the first row without it."""
        self._had: set[str] = set()

    def seen(self, rows: Iterable[tuple[int, Sample, bool]]) -> Iterator[Sample]:
        """Pass the samples on."""
        for number, sample, has_id in rows:
            self._numbers.append(number)
            self._hashes.append(hash(sample.id))
            self._check_names(number, sample)
            for field, present in (("id", has_id), ("group", sample.group is not None)):
                if present:
                    self._had.add(field)
                else:
                    self._lacking.setdefault(field, number)
            yield sample

    def _check_names(self, number: int, sample: Sample) -> None:
        for name in (sample.id, sample.group or ""):
            if not name.isascii() and _HALF.search(name):
                raise DatasetError(
                    f"{self._source.where(number)} has the id or group {name!r}: half of a character is no text, write it anew"
                )

    def finish(self, samples: Sequence[Sample]) -> None:
        """An id or a group on some rows only is a mistake, and guessing the rest would hide it. Ids must be unique."""
        if not samples:
            raise DatasetError(f"dataset {self._source.name!r} is empty: an experiment needs at least one sample")
        for field in ("id", "group"):
            if field in self._lacking and field in self._had:
                raise DatasetError(
                    f"{self._source.where(self._lacking[field])} has no {field!r} but others have one: "
                    "give it to all samples or to none"
                )
        self._check_unique(samples)

    def _check_unique(self, samples: Sequence[Sample]) -> None:
        values, counts = np.unique(np.frombuffer(self._hashes, dtype=np.int64), return_counts=True)
        suspects = set(values[counts > 1].tolist())
        seen: dict[str, int] = {}
        for number, told, k in zip(self._numbers, self._hashes, range(len(samples)), strict=True):
            if told in suspects and (name := samples[k].id) in seen:
                raise DatasetError(
                    f"{self._source.where(number)} repeats the id {name!r} of {self._source.where(seen[name])}: "
                    "ids must be unique"
                )
            if told in suspects:
                seen[samples[k].id] = number
