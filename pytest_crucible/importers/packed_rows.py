"""Rows of an arm as columns: ids, groups and scores stay in memory, and texts are read from the file again when needed."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, overload

from pytest_crucible.importers.results import Row
from pytest_crucible.records import Value
from pytest_crucible.records.serialize import canonical, pick

ABSENT: Any = object()
"""In a column of scores: the row has no score of this metric."""
_MOST_VALUES = 65_536  # values that are one object wherever they occur: grades repeat, likelihoods do not


@dataclass(slots=True)
class RowColumns:
    """The rows of an arm, by column. Losses and errors are by the row's place, because most rows have none."""

    samples: list[str] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
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
        if len(set(self.samples)) == len(self.samples):
            return False
        return len(set(zip(self.samples, self.repeats, strict=True))) < len(self.samples)

    def values(self, metric: str) -> list[Value | None]:
        """Return the scores of the rows that have one of a metric; None where it does not apply."""
        return [value for value in self.scores.get(metric, ()) if value is not ABSENT]

    def row(self, place: int) -> Row:
        """Return a row without its texts."""
        scores = {name: column[place] for name, column in self.scores.items() if column[place] is not ABSENT}
        return Row(
            sample=self.samples[place],
            repeat=self.repeats[place],
            group=self.groups[place],
            scores=scores,
            lost=self.lost.get(place, {}),
            error=self.errors.get(place, ""),
        )

    def add(self, row: Row, values: dict[float, float]) -> None:
        """Add a row. `values` are those so far."""
        place = len(self.samples)
        # One object for all arms; anything but a text is refused later.
        self.samples.append(sys.intern(row.sample) if type(row.sample) is str else row.sample)
        self.repeats.append(row.repeat)
        self.groups.append(row.group)
        for name, value in row.scores.items():
            if (column := self.scores.get(name)) is None:
                column, self.metrics[name] = self.scores.setdefault(name, []), None
            if len(column) < place:
                column += [ABSENT] * (place - len(column))
            if type(value) is float and len(values) < _MOST_VALUES:
                value = values.setdefault(value, value)
            column.append(value)
        if row.lost:
            self.lost[place] = row.lost
            self.metrics |= dict.fromkeys(row.lost)
        if row.error:
            self.errors[place] = row.error

    def pad(self) -> None:
        """Give all columns of scores one length, after the last row."""
        for column in self.scores.values():
            column += [ABSENT] * (len(self.samples) - len(column))


@dataclass(frozen=True, slots=True)
class RowHashes:
    """64-bit hashes, of this process, of the inputs and prompts of an arm; 0 where a row has none."""

    inputs: array[int] = field(default_factory=lambda: array("q"))
    prompts: array[int] = field(default_factory=lambda: array("q"))
    """Of `Row.prompt_sha256`."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> RowHashes:
        """Return the hashes of rows; those of packed rows as they were packed."""
        if isinstance(rows, PackedRows):
            return rows.hashes
        hashes = cls()
        for row in rows:
            hashes.add(row)
        return hashes

    def add(self, row: Row) -> None:
        self.inputs.append(0 if row.input is None else _hash_input(row.input))
        self.prompts.append(hash(row.prompt_sha256) if row.prompt_sha256 else 0)


class PackedRows(Sequence[Row]):
    """Many rows of an arm, whose texts are read again at each iteration; ids, groups, scores and hashes are in memory."""

    def __init__(self, read: Callable[[bool], Iterable[Row]]) -> None:
        """Pack what a function returns without replies (False), and returns again with them (True)."""
        self._read, self._is_changed = read, False
        self.columns, self.hashes = RowColumns(), RowHashes()
        self.questions = array("q")
        """Hashes of the prompts as they were sent, or else of input, expected value and metadata; 0 for an empty one."""
        self.kinds: set[bool] = set()
        """Whether rows have the prompt that was sent."""
        self.settings: dict[str, Mapping[str, Any]] = {}
        """The different settings of the rows' requests, by their text."""
        values: dict[float, float] = {}
        for row in read(False):
            self.columns.add(row, values)
            self.hashes.add(row)
            self.questions.append(_hash_question(row))
            self.kinds.add(row.prompt is not None)
            self.settings.setdefault(repr(row.parameters), row.parameters)
        self.columns.pad()

    def map(self, change: Callable[[Row], Row]) -> PackedRows:
        """Return the rows with other ids, groups or scores: `change` gets rows without texts."""
        changed = copy(self)
        changed.columns = RowColumns.of(change(self.columns.row(place)) for place in range(len(self)))
        changed._is_changed = True
        return changed

    def __len__(self) -> int:
        return len(self.columns.samples)

    def __iter__(self) -> Iterator[Row]:
        for place, row in enumerate(self._read(True)):
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


def _hash_input(value: Any) -> int:
    # Most inputs are texts, or fields of texts: writing them as JSON would take four times as long.
    if type(value) is dict and all(type(cell) is str for cell in value.values()):
        return hash(frozenset(value.items()))
    return hash((type(value) is str, value if type(value) is str else canonical(value)))


def _hash_question(row: Row) -> int:
    question = row.input if row.prompt is None else row.prompt
    if question is None or str(question).strip() in ("", "[]", "{}"):
        return 0
    return _hash([row.input, row.expected, row.metadata] if row.prompt is None else row.prompt)


def _hash(value: Any) -> int:
    """Return 64 bits of a value's hash, the same in each process. Among a million values, two share them by 1 in 40 million."""
    # Behind a quote, so that a text equals no other value's JSON.
    text = f'"{value}' if isinstance(value, str) else canonical(value)
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
