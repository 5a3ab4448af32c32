"""Rows of a large file, read again each time: as objects in memory they take ten times the bytes of the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, overload

from pytest_crucible.importers.results import Record
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.row_files import open_parquet, text_lines
from pytest_crucible.records.serialize import MOST_DEPTH, TooDeep, parse

# Below, a file's rows take some hundred MB, and reading them again would take a third more time.
LARGE_BYTES = 50_000_000
LARGE_ROWS = 50_000
_BATCH = 10_000  # rows: the texts of a batch take some MB
_DECODE = json.JSONDecoder().raw_decode
_ENDS = ("\n", "", "\r\n")
_PLAIN = {type(None), str, bool, int, float}
NumberedRow = tuple[int, Record]


class RereadRows(Sequence[NumberedRow]):
    """The numbered rows of a file, at least one, which are read at each iteration."""

    def __init__(self, read: Callable[[], Iterator[NumberedRow]]) -> None:
        self._read = read
        self._first = next(read())
        self._length: int | None = None

    def __iter__(self) -> Iterator[NumberedRow]:
        return self._read()

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, at: int) -> NumberedRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[NumberedRow]: ...

    def __getitem__(self, at: int | slice) -> NumberedRow | Sequence[NumberedRow]:
        return self._first if at == 0 else list(self)[at]


class LineRows(RereadRows):
    """The rows of a file of JSON lines, which can be read in two halves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(lambda: parse_lines(path))

    def middle(self) -> int:
        """Return the byte at which the second half begins; 0 for a file that has to be read from its beginning."""
        if self.path.suffix == ".gz":
            return 0
        with self.path.open("rb") as file:
            file.seek(self.path.stat().st_size // 2)
            file.readline()
            return file.tell()


def large_lines(path: Path) -> LineRows | None:
    """Return the rows of a large file of JSON lines; None for a small one, or where the first line is not a whole object.

    A damaged line is found when it is read, which raises SpecError.
    """
    if path.stat().st_size < LARGE_BYTES:
        return None
    lines = (text for _, text in text_lines(path) if text.strip())
    first, has_more = next(lines, ""), next(lines, "")
    try:
        is_object = isinstance(parse(json.loads, first), dict)
    except (TooDeep, ValueError):
        return None
    return LineRows(path) if is_object and has_more else None


def parse_lines(path: Path, begin: int = 0, end: int | None = None) -> Iterator[NumberedRow]:
    """Yield the rows of a file, or those of a part as `text_lines` reads it. Raises SpecError."""
    for number, text in text_lines(path, begin, end):
        if (plain := _parse_plain(text)) is not None:
            yield number, plain
            continue
        if not text.strip():
            continue
        line = text.removesuffix("\n")
        row = parse_line(path, number, line)
        if not isinstance(row, dict):
            raise SpecError(
                f"line {number} of {path} is not an object ({line:.40}): write one JSON object on each line"
            )
        yield number, row


def _parse_plain(text: str) -> Record | None:
    """Return the object of a line, in two thirds of the time of `parse_line`; None for a line to look at more closely."""
    try:
        row, end = _DECODE(text)
    except (ValueError, RecursionError):
        return None
    # Fewer brackets than levels cannot nest too deep.
    is_plain = text[end:] in _ENDS and text.count("[") + text.count("{") <= MOST_DEPTH
    return row if is_plain and type(row) is dict else None


def parse_line(path: Path, number: int, line: str) -> object:
    """Return the value on a line after the first. Raises SpecError."""
    try:
        return parse(json.loads, line)
    except TooDeep as error:
        raise SpecError(f"line {number} of {path} {error}: flatten its values") from None
    except ValueError as error:
        raise SpecError(
            f"line {number} of {path} is not JSON ({error}): the file may be incomplete: write it again"
        ) from error


class ParquetRows(RereadRows):
    """The rows of a Parquet file, of which single columns can be read."""

    def __init__(self, path: Path, plain: Callable[[Any], Any]) -> None:
        """`plain` makes a value of JSON of a cell."""
        self._path, self._plain = path, plain
        with open_parquet(path) as file:
            self.names: list[str] = file.schema_arrow.names
        super().__init__(lambda: self.with_columns(self.names))

    def with_columns(self, names: Sequence[str]) -> Iterator[NumberedRow]:
        """Yield the rows with some of their columns. Raises SpecError."""
        return enumerate(chain.from_iterable(map(rows_of, self.batches(names))), start=1)

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield some of the columns of consecutive rows. Raises SpecError."""
        try:
            with open_parquet(self._path) as file:
                for batch in file.iter_batches(columns=[*names], batch_size=_BATCH, use_threads=False):
                    # pyarrow returns the columns in the order of the file.
                    yield {name: self._plain_cells(batch.column(name)) for name in names}
        except DatasetError as error:
            raise SpecError(str(error)) from error

    def cells(self, name: str) -> Iterator[Any]:
        """Yield the cells of a column. Raises SpecError."""
        return chain.from_iterable(columns[name] for columns in self.batches([name]))

    def distinct(self, names: Sequence[str]) -> list[NumberedRow]:
        """Return the first row of each combination of cells in some columns, in their order. Raises SpecError."""
        firsts: dict[str, NumberedRow] = {} if names else {"": (1, {})}
        for number, row in self.with_columns(names) if names else ():
            firsts.setdefault(repr(row), (number, row))
        return list(firsts.values())

    def _plain_cells(self, column: Any) -> list[Any]:
        cells: list[Any] = column.to_pylist()
        return cells if {*map(type, cells)} <= _PLAIN else [*map(self._plain, cells)]


def rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[Record]:
    """Yield the rows of columns."""
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def large_parquet(path: Path, plain: Callable[[Any], Any]) -> ParquetRows | None:
    """Return the rows of a Parquet file of many rows; None for a small one. Raises DatasetError."""
    with open_parquet(path) as file:
        is_large = file.metadata.num_rows >= LARGE_ROWS
        has_equal_names = len(set(file.schema_arrow.names)) < len(file.schema_arrow.names)
    return ParquetRows(path, plain) if is_large and not has_equal_names else None


def differ_in_unit(units: Sequence[int], values: Iterable[int]) -> bool:
    """Return whether two rows of one unit have different values, by hashes of both."""
    # Loaded for many rows: a mapping of a million units takes ten times the memory of sorting them.
    import numpy as np

    if are_distinct(units, len(units)):
        return False
    of_units = np.array(units, dtype=np.int64)
    order = np.argsort(of_units, kind="stable")
    of_values = np.fromiter(values, dtype=np.int64, count=len(of_units))[order]
    is_same = of_units[order][1:] == of_units[order][:-1]
    return bool((is_same & (of_values[1:] != of_values[:-1])).any())


def are_distinct(hashes: Iterable[int], count: int) -> bool:
    """Return whether so many hashes are all different. Sorted they take a fifth of the memory of a set."""
    import numpy as np

    in_order = np.fromiter(hashes, dtype=np.int64, count=count)
    in_order.sort()
    return not bool((in_order[1:] == in_order[:-1]).any())
