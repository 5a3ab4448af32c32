"""Read CSV and TSV files; errors name the line. The first line has the names of the columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import text_lines
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.formula_cells import has_guarded_cells, unguard_cell

# Characters. Python's own limit of 131,072 is that of a spreadsheet, and a long context has more.
LONGEST_CELL = 1 << 27


def read_csv(path: Path, *, only: Container[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) for each record, or those that begin on the lines of `only`; an empty cell is a missing value.

    Raises DatasetError.
    """
    return _rows(path, csv.excel, only)


def read_tsv(path: Path, *, only: Container[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) for each record of a tab-separated file, as `read_csv` does. Raises DatasetError."""
    return _rows(path, csv.excel_tab, only)


def read_csv_ids(path: Path, field: str) -> Iterator[tuple[int, str | None]]:
    """Yield (line number, cell of the column, or None) for each record. Raises DatasetError."""
    return _cells(path, csv.excel, field)


def read_tsv_ids(path: Path, field: str) -> Iterator[tuple[int, str | None]]:
    """Yield (line number, cell of the column, or None) for each record of a tab-separated file. Raises DatasetError."""
    return _cells(path, csv.excel_tab, field)


def records(path: Path, dialect: type[csv.Dialect]) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line number, cells) for each record that is not blank. Raises DatasetError."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    reader = csv.reader((text for _, text in text_lines(path)), dialect, strict=True)
    while True:
        # A quoted cell may span lines: errors name the first.
        begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DatasetError(f"line {begin} of {path} is not {dialect_name(dialect)} ({error})") from error
        if cells is None:
            return
        if cells:
            yield begin, cells


def dialect_name(dialect: type[csv.Dialect]) -> str:
    return "TSV" if dialect is csv.excel_tab else "CSV"


def _rows(path: Path, dialect: type[csv.Dialect], only: Container[int] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    head, body = _table(path, dialect)
    for line, cells in body:
        if only is None or line in only:
            yield line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}


def _cells(path: Path, dialect: type[csv.Dialect], column: str) -> Iterator[tuple[int, str | None]]:
    head, body = _table(path, dialect)
    place = head.index(column) if column in head else None
    for line, cells in body:
        yield line, None if place is None else cells[place] or None


def _table(path: Path, dialect: type[csv.Dialect]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns and the records below them."""
    more = records(path, dialect)
    line, head = next(more, (0, []))
    repeated = [name for name, count in Counter(head).items() if count > 1]
    if repeated or not all(head):
        wrong = f"names the column {repeated[0]!r} twice" if repeated else "has a column without a name"
        raise DatasetError(f"line {line} of {path} {wrong}: the first line gives each column a name of its own")
    body = _body(path, head, more)
    if dialect is csv.excel and has_guarded_cells(head):
        return head, ((line, list(map(unguard_cell, cells))) for line, cells in body)
    return head, body


def _body(path: Path, head: list[str], more: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    for line, cells in more:
        if len(cells) != len(head):
            raise DatasetError(
                f"line {line} of {path} has {len(cells)} cells under {len(head)} columns: quote cells that hold the separator"
            )
        yield line, cells
