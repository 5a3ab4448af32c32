"""Rows of an arm as columns: ids, groups and scores stay in memory, and texts are read from the file again when needed."""

from __future__ import annotations

import json
import marshal
import math
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from hashlib import blake2b
from typing import Any, overload

from pytest_crucible.importers.large_files import LARGE_ROWS, are_distinct
from pytest_crucible.importers.results import Row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Value
from pytest_crucible.records.serialize import canonical, pick

ABSENT: Any = Ellipsis
"""In a column of scores: the row has no score of this metric."""
_TEXT, _NUMBERS = {str}, {float, int, bool}
_NO_METADATA: dict[str, Any] = {}
_WITHOUT_REFERENCES = 2  # the version of marshal in which equal values have equal bytes
_AS_JSON = json.JSONEncoder().encode
_DIGITS = 64  # of a SHA-256
_NO_HASH = bytes(8)
_MOST_VALUES = 65_536  # values that are one object wherever they occur: grades repeat, likelihoods do not


@dataclass(slots=True)
class RowColumns:
    """The rows of an arm, by column. Losses and errors are by the row's place, because most rows have none."""

    samples: list[str] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
    """Empty where no row has one."""
    scores: dict[str, list[Value | None]] = field(default_factory=dict)
    lost: dict[int, Mapping[str, str]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    metrics: dict[str, None] = field(default_factory=dict)
    """The names of the metrics that have a value or a loss, in the order of their first row."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> RowColumns:
        """Return the columns of rows; those of packed rows themselves."""
        if isinstance(rows, PackedRows):
            return rows.columns
        columns, values = cls(), dict[float, float]()
        for row in rows:
            columns.add(row, values)
        columns.pad()
        return columns

    def has_repeated_units(self) -> bool:
        """Return whether a sample has two rows in one repeat."""
        # A set of ids takes a quarter of the memory of a set of units.
        if not self.has_repeated_samples():
            return False
        return len(set(zip(self.samples, self.repeats, strict=True))) < len(self.samples)

    def has_repeated_samples(self) -> bool:
        """Return whether a sample has two rows."""
        is_many = len(self.samples) >= LARGE_ROWS
        if is_many and are_distinct(map(hash, self.samples), len(self.samples)):
            return False
        return len(set(self.samples)) < len(self.samples)

    def values(self, metric: str) -> list[Value | None]:
        """Return the scores of the rows that have one of a metric; None where it does not apply."""
        return [value for value in self.scores.get(metric, ()) if value is not ABSENT]

    def row(self, place: int) -> Row:
        """Return a row without its texts."""
        scores = {name: column[place] for name, column in self.scores.items() if column[place] is not ABSENT}
        return Row(
            sample=self.samples[place],
            repeat=self.repeats[place],
            group=self.groups[place] if self.groups else None,
            scores=scores,
            lost=self.lost.get(place, {}),
            error=self.errors.get(place, ""),
        )

    def add(self, row: Row, values: dict[float, float]) -> None:
        """Add a row. `values` are those so far."""
        place = len(self.samples)
        self.samples.append(row.sample)
        self.repeats.append(row.repeat)
        if row.group is not None:
            self.groups += [None] * (place - len(self.groups))
            self.groups.append(row.group)
        for name, value in row.scores.items():
            if type(value) is float and len(values) < _MOST_VALUES:
                value = values.setdefault(value, value)
            self._column(name, place).append(value)
        if row.lost:
            self.lost[place] = row.lost
            self.metrics |= dict.fromkeys(row.lost)
        if row.error:
            self.errors[place] = row.error

    def extend(self, others: RowColumns, values: dict[float, float]) -> None:
        """Add rows by their columns. `values` are those so far."""
        place = len(self.samples)
        self.samples += others.samples
        self.repeats += others.repeats
        if others.groups:
            self.groups += [None] * (place - len(self.groups))
            self.groups += others.groups
        for name, scores in others.scores.items():
            as_one_object = values.setdefault if len(values) < _MOST_VALUES else values.get
            self._column(name, place).extend(
                [as_one_object(score, score) if type(score) is float else score for score in scores]
            )
        self.lost |= {place + row: lost for row, lost in others.lost.items()}
        self.errors |= {place + row: error for row, error in others.errors.items()}
        self.metrics |= others.metrics

    def _column(self, name: str, place: int) -> list[Value | None]:
        """Return the scores of a metric, as many as there are rows before a place."""
        if (column := self.scores.get(name)) is None:
            column, self.metrics[name] = self.scores.setdefault(name, []), None
        if len(column) < place:
            column += [ABSENT] * (place - len(column))
        return column

    def pad(self) -> None:
        """Give all columns one length, after the last row."""
        for column in self.scores.values():
            column += [ABSENT] * (len(self.samples) - len(column))
        if self.groups:
            self.groups += [None] * (len(self.samples) - len(self.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows:
    """Consecutive rows by column, which all have the same metrics and one repeat, no group, no metadata, no loss and no error."""

    samples: list[str]
    scores: dict[str, list[Value | None]]
    inputs: Sequence[Any]
    prompts: Sequence[Any]
    """As they were sent; None where a row has none."""
    prompts_sha256: Sequence[str] = ()
    """Empty where rows have none."""
    expected: Sequence[Any] = ()
    """Empty where rows have none."""
    settings: Sequence[Mapping[str, Any]] = ()
    """Those of their requests, each once or several times. Empty where rows have none."""


def are_finite(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, and finite."""
    try:
        return _NUMBERS.issuperset(map(type, values)) and all(map(math.isfinite, values))
    except OverflowError:  # an integer beyond all floats
        return False


@dataclass(frozen=True, slots=True)
class RowHashes:
    """64-bit hashes of the inputs and prompts of an arm; 0 where a row has none."""

    inputs: array[int] = field(default_factory=lambda: array("q"))
    prompts: array[int] = field(default_factory=lambda: array("q"))
    """Of `Row.prompt_sha256`; shorter than `inputs` where no further row has one."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> RowHashes:
        """Return the hashes of rows; those of packed rows as they were packed."""
        if isinstance(rows, PackedRows):
            return rows.hashes
        hashes = cls()
        for row in rows:
            hashes.extend([row.input], [row.prompt_sha256] if row.prompt_sha256 else [])
        return hashes

    def extend(self, inputs: Sequence[Any], prompts_sha256: Sequence[str]) -> None:
        """Add rows. None of them has a prompt, or all have one."""
        prompts = array("q", map(_hash_sha256, prompts_sha256))
        self.merge(RowHashes(_digest_all(map(_input_bytes, inputs)), prompts))

    def merge(self, later: RowHashes) -> None:
        """Add the hashes of further rows."""
        if later.prompts:
            self.prompts.extend([0] * (len(self.inputs) - len(self.prompts)))
            self.prompts.extend(later.prompts)
        self.inputs.extend(later.inputs)


class Packing:
    """Columns and hashes of rows, from which no row can be made again."""

    def __init__(self) -> None:
        self.columns, self.hashes = RowColumns(), RowHashes()
        self.questions = array("q")
        """Hashes of the prompts as they were sent, or else of input, expected value and metadata; 0 for an empty one."""
        self.kinds: set[bool] = set()
        """Whether rows have the prompt that was sent."""
        self.settings: dict[str, Mapping[str, Any]] = {}
        """The different settings of the rows' requests, by their text."""
        self._values: dict[float, float] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows of any kind."""
        for row in rows:
            self.columns.add(row, self._values)
            self.hashes.extend([row.input], [row.prompt_sha256] if row.prompt_sha256 else [])
            self.questions += _digest_all([_question_bytes(row.prompt, row.input, row.expected, row.metadata)])
            self.kinds.add(row.prompt is not None)
            self.settings.setdefault(repr(row.parameters), row.parameters)

    def extend(self, plain: PlainRows) -> None:
        """Add plain rows, in a third of the time."""
        rows = len(plain.samples)
        of_rows = RowColumns(
            samples=plain.samples, repeats=[0] * rows, scores=plain.scores, metrics=dict.fromkeys(plain.scores)
        )
        self.columns.extend(of_rows, self._values)
        self.hashes.extend(plain.inputs, plain.prompts_sha256)
        expected = plain.expected or [None] * rows
        self.questions += _digest_all(map(_question_bytes, plain.prompts, plain.inputs, expected))
        self.kinds |= {prompt is not None for prompt in plain.prompts}
        for settings in plain.settings or ({},):
            self.settings.setdefault(repr(settings), settings)

    def merge(self, later: Packing) -> None:
        """Add rows that were packed apart."""
        later.columns.pad()
        self.columns.extend(later.columns, self._values)
        self.hashes.merge(later.hashes)
        self.questions.extend(later.questions)
        self.kinds |= later.kinds
        for text, settings in later.settings.items():
            self.settings.setdefault(text, settings)


class PackedRows(Sequence[Row]):
    """Many rows of an arm, whose texts are read again at each iteration; ids, groups, scores and hashes are in memory."""

    def __init__(self, packing: Packing, read: Callable[[], Iterable[Row]]) -> None:
        """`read` returns the rows that were packed, with their texts."""
        self._read, self._is_changed = read, False
        packing.columns.pad()
        self.columns, self.hashes, self.questions = packing.columns, packing.hashes, packing.questions
        self.kinds, self.settings = packing.kinds, packing.settings

    def map(self, change: Callable[[Row], Row]) -> PackedRows:
        """Return the rows with other ids, groups or scores: `change` gets rows without texts."""
        changed = copy(self)
        changed.columns = RowColumns.of(change(self.columns.row(place)) for place in range(len(self)))
        changed._is_changed = True
        return changed

    def __len__(self) -> int:
        return len(self.columns.samples)

    def __iter__(self) -> Iterator[Row]:
        for place, row in enumerate(self._read()):
            yield self._as_changed(place, row) if self._is_changed else row

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...

    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return next(iter(self)) if at == 0 else list(self)[at]

    def _as_changed(self, place: int, row: Row) -> Row:
        new = self.columns.row(place)
        return replace(row, **pick(new, "sample repeat group scores lost error"))


def map_rows(rows: Sequence[Row], change: Callable[[Row], Row]) -> Sequence[Row]:
    """Return rows with other ids, groups or scores."""
    return rows.map(change) if isinstance(rows, PackedRows) else [change(row) for row in rows]


def _input_bytes(value: Any) -> bytes:
    """Return the bytes of an input; none for None."""
    if value is None:
        return b""
    # Most inputs are texts, or fields of texts: writing these as JSON would take five times as long.
    if type(value) is dict and _TEXT.issuperset(map(type, value.values())):
        return marshal.dumps(sorted(value.items()), _WITHOUT_REFERENCES)
    return _bytes_of(value)


def _hash_sha256(text: str) -> int:
    """Return the hash of a hash in hexadecimal, in half the time; of another text, that of the text."""
    try:
        # Python's hash of an integer is the same in each process.
        return hash(int(text, 16)) if len(text) == _DIGITS else _digest_all([_bytes_of(text)])[0]
    except ValueError:
        return _digest_all([_bytes_of(text)])[0]


def _question_bytes(prompt: Any, input: Any, expected: Any, metadata: Mapping[str, Any] = _NO_METADATA) -> bytes:
    """Return the bytes of a question; none for an empty one."""
    question = input if prompt is None else prompt
    if question is None or str(question).strip() in ("", "[]", "{}"):
        return b""
    if prompt is not None:
        return _bytes_of(prompt)
    if type(input) is str and expected is None and not metadata:
        # As the encoder writes it, which takes three times as long to begin.
        return f"[{_AS_JSON(input)},null,{{}}]".encode("utf-8", "surrogatepass")
    return _bytes_of([input, expected, metadata])


def _bytes_of(value: Any) -> bytes:
    # Behind a quote, so that a text equals no other value's JSON.
    return (f'"{value}' if isinstance(value, str) else canonical(value)).encode("utf-8", "surrogatepass")


def _digest_all(contents: Iterable[bytes]) -> array[int]:
    """Return 64 bits of each hash, the same in each process; 0 of nothing. Among a million, two share them by 1 in 40 million."""
    # Not a function for each: its call takes as long as the hash.
    hashes = array("q", b"".join([blake2b(each, digest_size=8).digest() if each else _NO_HASH for each in contents]))
    if sys.byteorder == "little":
        hashes.byteswap()
    return hashes
