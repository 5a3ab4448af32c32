"""Load samples from a file, a list or a function: one sample a row, unique ids, groups on all or none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.formats import Reader, ending, reader
from pytest_crucible.datasets.objects import Rows, as_rows
from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.datasets.sample_checks import SampleChecks, Source
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.nesting import TooDeep, check_depth
from pytest_crucible.records.suggestions import closest_name
from pytest_crucible.records.type_names import describe_type

FIELDS = ("id", "input", "expected", "group")


def load_file(path: Path, *, fields: Mapping[str, str] | None = None, has_option: bool = False) -> Sequence[Sample]:
    """Return the samples of a file: JSONL, a JSON array, CSV, TSV (each optionally gzipped) or Parquet, by its ending.

    `fields` maps sample fields to the file's names: `{"input": "question", "expected": "answer"}`; `has_option` says that a
    command's option `--field` gave them. If no row has an id, the ids are "<file>-<line>". Raises DatasetError with the line.
    """
    source, read = file_source(path)
    source = dataclasses.replace(source, has_option=has_option)
    return check_samples(source, read(path), fields or {})


def file_source(path: Path) -> tuple[Source, Reader]:
    """Return a file as a source, and the reader of its format. Raises DatasetError for a missing file or an unknown format."""
    word, read = reader(path)
    return Source(str(path), word=word, stem=path.name.removesuffix(".gz").removesuffix(ending(path))), read


def load_rows(
    rows: Rows | Callable[[], Rows], *, name: str, fields: Mapping[str, str] | None = None, has_option: bool = False
) -> Sequence[Sample]:
    """Return samples from samples or mappings in memory, another library's dataset, or a function that returns one of these."""
    source_rows = rows() if callable(rows) else rows
    source = Source(name, word="sample", stem=name, has_option=has_option)
    return check_samples(source, enumerate(as_rows(source_rows), start=1), fields or {})


def identify(name: str, samples: Iterable[Sample]) -> Dataset:
    """Return the dataset with the hash of all fields of its samples, in order: equal hashes mean equal samples."""
    packed_samples = tuple(packed) if isinstance(packed := pack_if_many(samples), list) else packed
    return Dataset(name=name, sha256=hash_samples(packed_samples), samples=packed_samples)


def hash_samples(samples: Iterable[Sample], *, stem: str = "") -> str:
    """Return the hash of all fields of samples, in order. Of ids that were made of a stem and a number, only the number counts."""
    digest = hashlib.sha256()
    for sample in samples:
        own = sample.id.removeprefix(f"{stem}-") if stem else sample.id
        fields = (own, sample.input, sample.expected, sample.group, dict(sample.metadata))
        # Sorted, because the order of a mapping's keys is layout, not content.
        digest.update(json.dumps(fields, sort_keys=True, default=repr).encode())
    return digest.hexdigest()


def check_samples(source: Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]) -> Sequence[Sample]:
    """Return the checked samples. Rows are converted one by one, so that they are never all in memory."""
    checks = SampleChecks(source)
    samples = pack_if_many(checks.watch(_samples(source, rows, fields)))
    checks.finish(samples)
    return samples


def _samples(
    source: Source, rows: Iterable[tuple[int, Any]], fields: Mapping[str, str]
) -> Iterator[tuple[int, Sample, bool]]:
    """Yield (number, sample, whether the row has an id) for each row."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise DatasetError(f"{source.renaming(fields)} maps {sorted(unknown)}: the names are {', '.join(FIELDS)}")
    names = {ours: fields.get(ours, ours) for ours in FIELDS}
    for number, row in rows:
        _check_nesting(source, number, row)
        yield number, *_sample(source, number, row, names)


def _sample(source: Source, number: int, row: Any, names: Mapping[str, str]) -> tuple[Sample, bool]:
    if isinstance(row, Sample):
        _check_input(source, number, row.input, "input")
        _check_expected(source, number, row.expected, "expected")
        return row, True
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"{source.where(number)} is {describe_type(row)}: a sample is a mapping with 'id' and 'input', or a Sample"
        )
    if names["input"] not in row:
        raise DatasetError(
            f"{source.where(number)} has no {names['input']!r} (it has {', '.join(map(repr, row)) or 'nothing'}): "
            f"name the field with {source.renaming({'input': _find_field(names['input'], row)})}"
        )
    _check_input(source, number, row[names["input"]], names["input"])
    _check_expected(source, number, row.get(names["expected"]), names["expected"])
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


def _check_nesting(source: Source, number: int, row: Any) -> None:
    try:
        check_depth([row.input, row.expected, row.metadata] if isinstance(row, Sample) else row)
    except TooDeep as error:
        raise DatasetError(f"{source.where(number)} {error}: flatten its values") from None


def _check_input(source: Source, number: int, value: Any, name: str) -> None:
    """Raise DatasetError for a null, which is a missing value and not an empty text."""
    if value is None:
        raise DatasetError(
            f"{source.where(number)} has no value for {name!r} (null): write one, or remove the {source.word}"
        )


def _check_expected(source: Source, number: int, value: Any, name: str) -> None:
    """Raise DatasetError for NaN, which equals nothing and which PostgreSQL cannot store."""
    if isinstance(value, float) and math.isnan(value):
        raise DatasetError(f"{source.where(number)} has NaN for {name!r}: write null where no value is expected")


# Common names for the input field, in order of preference.
_ALIASES = ("question", "prompt", "problem", "query", "instruction", "text", "claim")


def _find_field(expected_field: str, row: Mapping[str, Any]) -> str | None:
    """Return the name of the most likely field."""
    alias = next((alias for alias in _ALIASES if alias in row), None)
    return closest_name(expected_field, map(str, row)) or alias
