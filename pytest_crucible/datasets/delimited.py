"""Read CSV and TSV files; errors name the line. The first line has the names of the columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import text_lines
from pytest_crucible.records.errors import DatasetError

# Characters. Python's own limit of 131,072 is that of a spreadsheet, and a long context has more.
LONGEST_CELL = 1 << 27


def read_csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) for each record; an empty cell means a missing value. Raises DatasetError."""
    return _rows(path, csv.excel)


def read_tsv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) for each record of a tab-separated file. Raises DatasetError."""
    return _rows(path, csv.excel_tab)


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


def _rows(path: Path, dialect: type[csv.Dialect]) -> Iterator[tuple[int, dict[str, Any]]]:
    more = records(path, dialect)
    line, head = next(more, (0, []))
    if not head:
        return
    repeated = [name for name, count in Counter(head).items() if count > 1]
    if repeated or not all(head):
        wrong = f"names the column {repeated[0]!r} twice" if repeated else "has a column without a name"
        raise DatasetError(f"line {line} of {path} {wrong}: the first line gives each column a name of its own")
    for line, cells in more:
        if len(cells) != len(head):
            raise DatasetError(
                f"line {line} of {path} has {len(cells)} cells under {len(head)} columns: quote cells that hold the separator"
            )
        yield line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}
