"""Write tables as CSV, JSON Lines and Parquet (extra `parquet`), row by row."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pytest_crucible.exports.files import open_whole
from pytest_crucible.records import ColumnKind, ExportTable
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.views import guard_cell


def write_csv(table: ExportTable, file: IO[bytes]) -> int:
    """Write the table by RFC 4180 and return the number of rows. Unknown values are empty cells.

    A text that a spreadsheet would run as a formula gets an apostrophe, which the importers and readers of datasets remove.

    >>> file = io.BytesIO()
    >>> table = ExportTable(columns={"text": "text", "facts": "json"}, rows=[('say "hi",\\nBob', {"n": 1}), (None, None)])
    >>> write_csv(table, file)
    2
    >>> print(file.getvalue().decode().replace("\\r\\n", "\\n"), end="")
    text,facts
    "say ""hi"",
    Bob","{""n"": 1}"
    ,
    """
    kinds = tuple(table.columns.values())
    with _utf8(file) as text:
        # The default line ends are those of RFC 4180; with others, csv would not quote a lone \r.
        writer = csv.writer(text)
        writer.writerow(table.columns)
        return _write_rows(table, lambda row: writer.writerow(map(_csv_cell, row, kinds)))


def write_jsonl(table: ExportTable, file: IO[bytes]) -> int:
    """Write the table as one strict JSON object per line and return the number of rows. Infinities are `"inf"` and `"-inf"`.

    >>> file = io.BytesIO()
    >>> write_jsonl(ExportTable(columns={"sample": "text", "value": "number"}, rows=[("ä", 0.5), ("b", None)]), file)
    2
    >>> print(file.getvalue().decode(), end="")
    {"sample": "ä", "value": 0.5}
    {"sample": "b", "value": null}
    """
    names = list(table.columns)
    with _utf8(file) as text:
        return _write_rows(table, lambda row: text.write(_line(dict(zip(names, row, strict=True)))))


def cell(value: Any, kind: ColumnKind) -> Any:
    """Return a cell for a format without JSON: texts unchanged, other values of a `json` column as JSON.

    >>> cell("a text", "json"), cell(["a", 1], "json"), cell(0.5, "number")
    ('a text', '["a", 1]', 0.5)
    """
    if kind != "json" or value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _csv_cell(value: Any, kind: ColumnKind) -> Any:
    return guard_cell(value) if isinstance(value, str) else cell(value, kind)


def _line(row: dict[str, Any]) -> str:
    try:
        # Only a row with an infinity or NaN, which JSON lacks, takes the slow way through plain values.
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(to_plain(row), ensure_ascii=False) + "\n"


def _write_rows(table: ExportTable, write: Callable[[tuple[Any, ...]], object]) -> int:
    count = 0
    for row in table.rows:
        write(row)
        count += 1
    return count


@contextlib.contextmanager
def _utf8(file: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    """Yield a UTF-8 text layer over a binary file that stays open. Lone surrogates, which a prompt may contain, are escaped."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    try:
        yield text
    finally:
        text.flush()
        # Closing or collecting the text layer would close the file below it.
        text.detach()


Write = Callable[[ExportTable, IO[bytes]], int]

# Rows in one row group of a Parquet file. A group is in memory as a whole while it is written.
_ROW_GROUP = 10_000


def write_parquet(table: ExportTable, file: IO[bytes]) -> int:
    """Write the table as Parquet and return the number of rows. A `json` column holds texts. Raises SpecError without pyarrow."""
    pyarrow = _import_pyarrow()
    text = pyarrow.string()
    numbers = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "flag": pyarrow.bool_()}
    types = {"text": text, "json": text, **numbers}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in table.columns.items()])
    count = 0
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for rows in _batches(table.rows):
            columns = [
                pyarrow.array([_escape_surrogates(cell(value, kind)) for value in column], type=types[kind])
                for column, kind in zip(zip(*rows, strict=True), table.columns.values(), strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
            count += len(rows)
    return count


def _import_pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise SpecError(
            'Parquet files need pyarrow, which is not installed: pip install "pytest-crucible[parquet]"'
        ) from error
    return pyarrow


def _batches(rows: Any) -> Iterator[Sequence[tuple[Any, ...]]]:
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, _ROW_GROUP)):
        yield batch


def _escape_surrogates(value: Any) -> Any:
    """Return the text with lone surrogates escaped, which a prompt may contain and UTF-8 cannot encode."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


FORMATS: Mapping[str, Write] = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}


def find_writer(extension: str) -> Write:
    """Return the writer for an extension without its dot. Raises SpecError."""
    if extension not in FORMATS:
        problem = f"ends in '.{extension}'" if extension else "has no extension"
        raise SpecError(f"the file {problem}: write one of {', '.join(f'.{name}' for name in FORMATS)}")
    if extension == "parquet":
        # Its absence is an error before anything is written.
        _import_pyarrow()
    return FORMATS[extension]


def write_file(table: ExportTable, path: Path) -> int:
    """Write the table and return the number of rows. The file is written completely or not at all. Raises SpecError."""
    write = find_writer(path.suffix.removeprefix("."))
    with open_whole(path) as file:
        return write(table, file)
