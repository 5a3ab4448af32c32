"""Load samples from a file, a list or a function: one sample a row, unique ids, groups on all or none."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pytest_crucible.datasets.indexed import IndexedSamples, RowIndex, index_of
from pytest_crucible.datasets.packed import MANY, pack_if_many
from pytest_crucible.datasets.selection import draw
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.errors import DatasetError, closest_name, describe_type
from pytest_crucible.records.row_files import FORMATS, Format, ending, format_of
from pytest_crucible.records.serialize import TooDeep, check_depth

FIELDS = ("id", "input", "expected", "group")


def load_file(path: Path, *, fields: Mapping[str, str] | None = None, has_option: bool = False) -> Sequence[Sample]:
    """Return the samples of a file: JSONL, a JSON array, CSV, TSV (each optionally gzipped) or Parquet, by its ending.

    `fields` maps sample fields to the file's names: `{"input": "question", "expected": "answer"}`; `has_option` says that a
    command's option `--field` gave them. If no row has an id, the ids are "<file>-<line>". Raises DatasetError with the line.
    """
    source, file_format = file_source(path)
    source = dataclasses.replace(source, has_option=has_option)
    index = index_of(path)
    if index is not None:
        return _indexed_samples(index, source, lambda: file_format.read(path), fields or {})
    return check_samples(source, file_format.read(path), fields or {})


def _indexed_samples(
    index: RowIndex, source: Source, read: Callable[[], Iterator[tuple[int, Any]]], fields: Mapping[str, str]
) -> IndexedSamples:
    """Return the checked samples of a large file, of which only the index stays in memory."""
    names, own = _field_names(source, fields)
    samples = IndexedSamples(
        index,
        lambda number, row: _sample(source, number, row, names, own)[0],
        lambda: (sample for _, sample, _ in _samples(source, read(), fields)),
    )
    checks = SampleChecks(source)
    # In the same pass: to read ten million rows takes minutes.
    samples.sha256 = hash_samples(checks.watch(_samples(source, read(), fields)))
    checks.finish(samples)
    return samples


def file_source(path: Path) -> tuple[Source, Format]:
    """Return a file as a source, and its format. Raises DatasetError for a missing file or an unknown format."""
    file_format = format_of(path)
    stem = path.name.removesuffix(".gz").removesuffix(ending(path))
    return Source(str(path), word=file_format.unit, stem=stem), file_format


def load_rows(
    rows: Rows | Callable[[], Rows], *, name: str, fields: Mapping[str, str] | None = None, has_option: bool = False
) -> Sequence[Sample]:
    """Return samples from samples or mappings in memory, another library's dataset, or a function that returns one of these."""
    source_rows = rows() if callable(rows) else rows
    source = Source(name, word="sample", stem=name, has_option=has_option)
    return check_samples(source, enumerate(as_rows(source_rows), start=1), fields or {})


def identify(name: str, samples: Iterable[Sample]) -> Dataset:
    """Return the dataset with the hash of all fields of its samples, in order: equal hashes mean equal samples."""
    if isinstance(samples, IndexedSamples):
        return Dataset(name=name, sha256=samples.sha256, samples=samples)
    packed_samples = tuple(packed) if isinstance(packed := pack_if_many(samples), list) else packed
    return Dataset(name=name, sha256=hash_samples(packed_samples), samples=packed_samples)


def hash_samples(samples: Iterable[Sample], *, stem: str = "") -> str:
    """Return the hash of all fields of samples, in order. Of ids that were made of a stem and a number, only the number counts."""
    digest = hashlib.sha256()
    for sample in samples:
        own = sample.id.removeprefix(f"{stem}-") if stem else sample.id
        fields: tuple[Any, ...] = (own, sample.input, sample.expected, sample.group, dict(sample.metadata))
        fields += () if sample.joined_group is None else (sample.joined_group,)
        # Sorted, because the order of a mapping's keys is layout, not content.
        digest.update(_encode(fields).encode())
    return digest.hexdigest()


# `json.dumps` makes an encoder at each call.
_encode = json.JSONEncoder(sort_keys=True, default=repr).encode


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
    names, own = _field_names(source, fields)
    for number, row in rows:
        try:
            check_depth([row.input, row.expected, row.metadata] if isinstance(row, Sample) else row)
        except TooDeep as error:
            raise DatasetError(f"{source.where(number)} {error}: flatten its values") from None
        yield number, *_sample(source, number, row, names, own)


def _field_names(source: Source, fields: Mapping[str, str]) -> tuple[Mapping[str, str], frozenset[str]]:
    """Return the names of a sample's fields in the rows: by field, and as a set."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise DatasetError(f"{source.renaming(fields)} maps {sorted(unknown)}: the names are {', '.join(FIELDS)}")
    names = {ours: fields.get(ours, ours) for ours in FIELDS}
    return names, frozenset(names.values())


def _sample(
    source: Source, number: int, row: Any, names: Mapping[str, str], own: frozenset[str]
) -> tuple[Sample, bool]:
    """Return the sample of a row, and whether the row has an id. What is not in its `own` fields is metadata."""
    if isinstance(row, Sample):
        _check_values(source, number, row.input, row.expected, names=("input", "expected"))
        return row, True
    # The usual type first, here and below: looking for an abstract class takes as long as half of the rest.
    if type(row) is not dict and not isinstance(row, Mapping):
        raise DatasetError(
            f"{source.where(number)} is {describe_type(row)}: a sample is a mapping with 'id' and 'input', or a Sample"
        )
    if names["input"] not in row:
        alias = next((alias for alias in _ALIASES if alias in row), None)
        field = closest_name(names["input"], map(str, row)) or alias
        raise DatasetError(
            f"{source.where(number)} has no {names['input']!r} (it has {', '.join(map(repr, row)) or 'nothing'}): "
            f"name the field with {source.renaming({'input': field})}"
        )
    prompt, expected = row[names["input"]], row.get(names["expected"])
    _check_values(source, number, prompt, expected, names=(names["input"], names["expected"]))
    sample_id = row.get(names["id"])
    if not isinstance(sample_id, str) and isinstance(sample_id, Mapping | list | tuple | set | bytes):
        raise DatasetError(
            f"{source.where(number)} has the id {sample_id!r:.60}: an id is a text or a number, such as 'q1'"
        )
    group = row.get(names["group"])
    sample = Sample(
        id=f"{source.stem}-{number}" if sample_id is None else str(sample_id),
        input=prompt,
        expected=expected,
        group=None if group is None else str(group),
        metadata={key: value for key, value in row.items() if key not in own},
    )
    return sample, sample_id is not None


def _check_values(source: Source, number: int, prompt: Any, expected: Any, *, names: tuple[str, str]) -> None:
    """Raise DatasetError for a null input, which is a missing value and not an empty text, and for an expected NaN."""
    if prompt is None:
        raise DatasetError(
            f"{source.where(number)} has no value for {names[0]!r} (null): write one, or remove the {source.word}"
        )
    # NaN equals nothing, and PostgreSQL cannot store it.
    if isinstance(expected, float) and math.isnan(expected):
        raise DatasetError(f"{source.where(number)} has NaN for {names[1]!r}: write null where no value is expected")


# Common names for the input field, in order of preference.
_ALIASES = ("question", "prompt", "problem", "query", "instruction", "text", "claim")


Rows = Iterable[Sample | Mapping[str, Any]]


def as_rows(dataset: Any) -> Rows:
    """Return the rows of a dataset object, read lazily. Raises DatasetError for a mapping of several datasets."""
    if hasattr(dataset, "iterrows") and hasattr(dataset, "isna"):
        return _frame_rows(dataset)
    if hasattr(dataset, "iter_rows") and hasattr(dataset, "columns"):
        return cast(Rows, dataset.iter_rows(named=True))
    if hasattr(dataset, "collect") and hasattr(dataset, "collect_schema"):
        return as_rows(dataset.collect())
    if hasattr(dataset, "to_batches") and hasattr(dataset, "schema"):
        return (row for batch in dataset.to_batches() for row in batch.to_pylist())
    if isinstance(dataset, Mapping):
        raise DatasetError(
            f"{describe_type(dataset)} with {', '.join(map(repr, dataset))} is not a single dataset: pass one of its parts"
        )
    if not isinstance(dataset, Iterable):
        raise DatasetError(
            f"{describe_type(dataset)} cannot be used as a dataset: pass a list of samples, or a function that returns one"
        )
    labels = _class_labels(dataset)
    if labels:
        return ({**row, **_label_names(row, labels)} for row in dataset)
    return (_plain_row(row) for row in dataset)


def _class_labels(dataset: Any) -> dict[str, Sequence[str]]:
    """Return column -> names of its classes, of a Hugging Face dataset."""
    features = getattr(dataset, "features", None)
    if not isinstance(features, Mapping):
        return {}
    return {name: feature.names for name, feature in features.items() if hasattr(feature, "int2str")}


def _label_names(row: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    """Return the names of a row's classes. A split without labels, such as a test split, has -1."""
    return {
        column: names[row[column]] if row[column] is not None and row[column] >= 0 else None
        for column, names in labels.items()
        if column in row
    }


def _frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame without its missing cells (NaN, NaT, NA, None)."""
    names = [str(name) for name in frame.columns]
    for values, missing in zip(
        frame.itertuples(index=False, name=None), frame.isna().itertuples(index=False, name=None), strict=True
    ):
        # A numpy scalar has no JSON form.
        yield {
            name: value.item() if type(value).__module__ == "numpy" and not getattr(value, "shape", True) else value
            for name, value, lacks in zip(names, values, missing, strict=True)
            if not lacks
        }


# Python makes a union of them for each row, and a tuple once.
_ROWS = (dict, Sample, Mapping)


def _plain_row(row: Any) -> Sample | Mapping[str, Any]:
    """Return an Inspect sample as a mapping, its messages as roles and contents; other rows unchanged.

    An empty target becomes a missing expected value.
    """
    if isinstance(row, _ROWS) or not all(hasattr(row, name) for name in ("input", "target", "metadata")):
        return cast(Mapping[str, Any], row)
    text = row.input
    if not isinstance(text, str):
        text = [{"role": message.role, "content": message.text} for message in text]
    choices = {"choices": list(row.choices)} if getattr(row, "choices", None) else {}
    fields = {"id": getattr(row, "id", None), "expected": row.target or None, "input": text}
    return {**(row.metadata or {}), **choices, **fields}


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of samples, such as a file, with its rows' names in errors: `line 3 of claims.jsonl`."""

    name: str
    word: str
    stem: str
    """The prefix of generated ids."""
    has_option: bool = False
    """Whether a command's option `--field` names the fields, and not the argument `fields` of a marker."""

    def where(self, number: int) -> str:
        return f"{self.word} {number} of {self.name}"

    def renaming(self, fields: Mapping[str, str | None]) -> str:
        """Return the argument by which a user names fields of the source. None is an unknown name."""
        if self.has_option:
            return " ".join(f"--field {ours}={theirs or '...'}" for ours, theirs in fields.items())
        pairs = (f"{ours!r}: {repr(theirs) if theirs else '...'}" for ours, theirs in fields.items())
        return f"fields={{{', '.join(pairs)}}}"


def _missing_field(source: Source, number: int, field: str) -> DatasetError:
    return DatasetError(
        f"{source.where(number)} has no {field!r} but others have one: give it to all samples or to none"
    )


# One half of a surrogate pair, as written by a broken JSON writer. UTF-8 and databases refuse it.
_HALF = re.compile("[\ud800-\udfff]")


class SampleChecks:
    """Checks that need all rows: unique ids, and ids and groups on all rows or none. Stores two numbers for each row."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._numbers = array("Q")
        self._hashes = array("q")
        self._missing: dict[str, int] = {}
        """Field -> number of the first row without it."""
        self._present: set[str] = set()

    def watch(self, rows: Iterable[tuple[int, Sample, bool]]) -> Iterator[Sample]:
        """Yield the samples, and record of each what `finish` checks."""
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
                raise _missing_field(self._source, self._missing[field], field)
        self._check_unique(samples)

    def _check_unique(self, samples: Sequence[Sample]) -> None:
        # numpy takes 0.08 s to import, which only many samples are worth.
        if len(samples) <= MANY and len(set(self._hashes)) == len(samples):
            return
        import numpy as np

        ordered = np.sort(np.frombuffer(self._hashes, dtype=np.int64))
        # Hashes instead of ids cost 8 bytes a sample; ids are compared only where two hashes are equal.
        suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not suspects:
            return
        first_numbers: dict[str, int] = {}
        for number, id_hash, k in zip(self._numbers, self._hashes, range(len(samples)), strict=True):
            if id_hash in suspects and (name := samples[k].id) in first_numbers:
                raise DatasetError(
                    f"{self._source.where(number)} repeats the id {name!r:.200} of {self._source.where(first_numbers[name])}: "
                    "ids must be unique"
                )
            if id_hash in suspects:
                first_numbers[samples[k].id] = number


# Bytes. A smaller file is read in a second, and then all of its rows are checked.
LARGE = 4_000_000


def is_large(path: Path) -> bool:
    """Return whether a file is large, and of a format whose ids can be read alone."""
    file_format = FORMATS.get(ending(path))
    has_ids = file_format is not None and file_format.read_ids is not None
    return has_ids and path.is_file() and path.stat().st_size >= LARGE


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file of a format with `read_ids`, and the names of its fields."""

    path: Path
    fields: Mapping[str, str]

    def ids(self) -> Iterator[tuple[int, str]]:
        """Yield (number, id) for each row. Raises DatasetError if only some rows have an id."""
        source, file_format = file_source(self.path)
        assert file_format.read_ids is not None
        first: tuple[int, Any] | None = None
        for number, value in file_format.read_ids(self.path, self.fields.get("id", "id")):
            first = first or (number, value)
            if (value is None) != (first[1] is None):
                raise _missing_field(source, number if value is None else first[0], "id")
            yield number, f"{source.stem}-{number}" if value is None else str(value)

    def draw(self, limit: int, *, seed: int) -> tuple[Sequence[Sample], int]:
        """Return the samples that `subset` draws from the whole file, and the number of its rows. Raises DatasetError."""
        total = 0

        def draws() -> Iterator[tuple[bytes, int]]:
            nonlocal total
            for number, sample_id in self.ids():
                total += 1
                yield draw(f"{seed}:{sample_id}"), number

        drawn = {number for _, number in heapq.nsmallest(limit, draws())}
        source, file_format = file_source(self.path)
        return check_samples(source, file_format.read(self.path, only=drawn), self.fields), total
