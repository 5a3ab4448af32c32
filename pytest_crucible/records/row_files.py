"""Read datasets from files: JSON lines, JSON arrays, CSV, TSV and Parquet, by their endings. Errors name the line."""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError, describe_json_type
from pytest_crucible.records.serialize import TooDeep, parse
from pytest_crucible.records.views import has_guarded_cells, unguard_cell


def _refuse_constant(name: str) -> Any:
    """Raise ValueError for NaN and infinity, which Python writes and reads although JSON has none."""
    raise ValueError(f"{name} is not a JSON number; write null where there is no value")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Decodes JSON by the standard, without NaN and infinity."""


def read_rows(
    path: Path, *, what: str = "dataset", only: Container[int] | None = None, allow_nan: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line that is not blank, also of a gzipped file; with `only`, for these lines.

    `allow_nan` accepts NaN and infinities, as Python writes them. Raises DatasetError if the file is missing, unreadable, empty, or
    not one JSON object per line.
    """
    if not path.is_file():
        raise DatasetError(f"{what} {str(path)!r} does not exist: give the path of a .jsonl file")
    empty = True
    for line, text in text_lines(path):
        if text.strip():
            empty = False
            if only is None or line in only:
                yield line, json_row(text, path, line, allow_nan=allow_nan)
    if empty:
        raise DatasetError(f"{what} {str(path)!r} is empty: write one JSON object per line")


def read_jsonl_ids(path: Path, field: str) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value of the field) for each line that is not blank. Lines without the field are not parsed."""
    # A key may be written with escapes, such as "\u0069d".
    keys = {json.dumps(field), json.dumps(field, ensure_ascii=False), "\\u", "\\/"}
    for line, text in text_lines(path):
        if any(key in text for key in keys):
            yield line, json_row(text, path, line).get(field)
        elif text.strip():
            yield line, None


def text_lines(path: Path, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, text with its line end) for each line of a UTF-8 file, with or without a byte order mark.

    With `begin` and `end`, where lines begin, it yields those between, numbered from the first. Raises DatasetError if the file
    cannot be read.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    line = 0
    try:
        with opener(path, "rb") as file:
            file.seek(begin)
            for line, raw in enumerate(file, start=1):
                # Decoded line by line, because a decoder that reads ahead would make the line number of an error wrong.
                yield line, raw.decode("utf-8-sig" if line == 1 and not begin else "utf-8")
                begin += len(raw)
                if begin == end:
                    return
    except UnicodeDecodeError as error:
        raise DatasetError(f"line {line} of {path} is not UTF-8 ({error.reason}): save the file as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def json_row(text: str, path: Path, line: int, *, allow_nan: bool = False) -> dict[str, Any]:
    try:
        row = parse(json.loads if allow_nan else DECODER.decode, text)
    except TooDeep as error:
        raise DatasetError(f"line {line} of {path} {error}: flatten its values") from None
    except ValueError as error:
        raise DatasetError(f"line {line} of {path} is not JSON ({error}): write one JSON object per line") from error
    if not isinstance(row, dict):
        raise DatasetError(f"line {line} of {path} is {describe_json_type(row)}: write one object per line")
    return row


_BLANK = re.compile(r"[ \t\n\r]*")


def read_json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each element of an array, read one after the other. Raises DatasetError."""
    text = "".join(line for _, line in text_lines(path))
    at, counted, line = 0, 0, 1

    def take(character: str) -> bool:
        """Step over the character and the blanks around it; return whether it was there."""
        nonlocal at
        at = _blanks_end(text, at)
        if is_there := text.startswith(character, at):
            at = _blanks_end(text, at + 1)
        return is_there

    def place() -> str:
        nonlocal counted, line
        # Only the part since the last call is counted, so that the whole text is counted once.
        line, counted = line + text.count("\n", counted, at), at
        return f"line {line} of {path}"

    if not text.strip():
        return
    if not take("["):
        raise DatasetError(f"{place()} is not a JSON array: write [{{...}}, {{...}}]")
    is_closed = take("]")
    while not is_closed:
        begin = place()
        try:
            element, at = parse(functools.partial(DECODER.raw_decode, idx=at), text)
        except TooDeep as error:
            raise DatasetError(f"{begin} {error}: flatten its values") from None
        except ValueError as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise DatasetError(f"{begin} is not JSON ({reason})") from error
        if not isinstance(element, dict):
            raise DatasetError(f"{begin} has {describe_json_type(element)}: write objects")
        yield line, element
        is_closed = take("]")
        if not is_closed and not take(","):
            raise DatasetError(f"{place()} lacks a comma or the closing bracket: write [{{...}}, {{...}}]")
    if at < len(text):
        raise DatasetError(f"{place()} has text after the array: write one array per file")


def _blanks_end(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


# Characters. Python's own limit of 131,072 is that of a spreadsheet, and a long context has more.
LONGEST_CELL = 1 << 27


def read_csv(
    path: Path, *, only: Container[int] | None = None, dialect: type[csv.Dialect] = csv.excel
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) for each record, or those that begin on the lines of `only`; an empty cell is a missing value.

    Raises DatasetError.
    """
    head, body = _table(path, dialect)
    for line, cells in body:
        if only is None or line in only:
            yield line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}


def read_csv_ids(path: Path, field: str, dialect: type[csv.Dialect] = csv.excel) -> Iterator[tuple[int, str | None]]:
    """Yield (line number, cell of the column, or None) for each record. Raises DatasetError."""
    head, body = _table(path, dialect)
    place = head.index(field) if field in head else None
    for line, cells in body:
        yield line, None if place is None else cells[place] or None


read_tsv = functools.partial(read_csv, dialect=csv.excel_tab)


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
            raise DatasetError(
                f"line {begin} of {path} is not {'TSV' if dialect is csv.excel_tab else 'CSV'} ({error})"
            ) from error
        if cells is None:
            return
        if cells:
            yield begin, cells


def _table(path: Path, dialect: type[csv.Dialect]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns and the records below them."""
    more = records(path, dialect)
    line, head = next(more, (0, []))
    if len(head) > 1 and not head[0]:
        # pandas writes its index into a first column without a name.
        more = ((number, cells[1:]) for number, cells in more)
        head = head[1:]
    repeated = [name for name, count in Counter(head).items() if count > 1]
    if repeated or not all(head):
        wrong = f"names the column {repeated[0]!r} twice" if repeated else "has a column without a name"
        raise DatasetError(f"line {line} of {path} {wrong}: the first line gives each column a name of its own")
    body = _table_body(path, head, more)
    if dialect is csv.excel and has_guarded_cells(head):
        return head, ((line, list(map(unguard_cell, cells))) for line, cells in body)
    return head, body


def _table_body(path: Path, head: list[str], more: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    for line, cells in more:
        if len(cells) != len(head):
            raise DatasetError(
                f"line {line} of {path} has {len(cells)} cells under {len(head)} columns: quote cells that hold the separator"
            )
        yield line, cells


def read_parquet(path: Path, *, only: Container[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, row), or only the rows of these numbers. Raises DatasetError, also without pyarrow."""
    with open_parquet(path) as file:
        first = 1
        for group in range(file.num_row_groups):
            numbers = range(first, first + file.metadata.row_group(group).num_rows)
            first = numbers.stop
            # A row group without a needed row is not even decompressed.
            if only is None or any(number in only for number in numbers):
                yield from _row_group_rows(file, group, numbers, only)


def read_parquet_ids(path: Path, field: str) -> Iterator[tuple[int, Any]]:
    """Yield (row number, value of the column, or None without such a column); no other column is read. Raises DatasetError."""
    with open_parquet(path) as file:
        if field not in file.schema_arrow.names:
            yield from ((number, None) for number in range(1, file.metadata.num_rows + 1))
            return
        number = 0
        for batch in file.iter_batches(columns=[field]):
            for row in batch.to_pylist():
                number += 1
                yield number, row[field]


def _row_group_rows(
    file: Any, group: int, numbers: range, only: Container[int] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    first = numbers.start
    for batch in file.iter_batches(row_groups=[group]):
        places = [place for place in range(batch.num_rows) if only is None or first + place in only]
        if places:
            rows = batch if len(places) == batch.num_rows else batch.take(places)
            yield from zip((first + place for place in places), rows.to_pylist(), strict=True)
        first += batch.num_rows


_BUFFER = 1 << 16  # bytes; without one, the columns of a row group are read as a whole


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a file. Its errors become DatasetErrors, now and while it is read."""
    try:
        from pyarrow import ArrowException, default_memory_pool, set_memory_pool, system_memory_pool
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise DatasetError(f'{path} needs pyarrow: pip install "pytest-crucible[parquet]"') from None
    try:
        pool = default_memory_pool()
        # The pool of a file is that of its opening. The default one keeps what it has used once, tens of MB.
        set_memory_pool(system_memory_pool())
        try:
            opened = ParquetFile(path, buffer_size=_BUFFER)
        finally:
            set_memory_pool(pool)
        with opened as file:
            yield file
    except (OSError, ArrowException) as error:
        raise DatasetError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]})") from error


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of datasets."""

    unit: str
    """What the numbers of rows count."""
    read: Callable[..., Iterator[tuple[int, Mapping[str, Any]]]]
    """Yields (number, row) of a path; with `read_ids`, it takes `only=`, numbers of rows."""
    read_ids: Callable[[Path, str], Iterator[tuple[int, Any]]] | None = None
    """Yields (number, id or None) of a path and the name of its field, without building the rows."""


# File name ending -> format. All but Parquet may be gzipped. A JSON array has to be parsed as a whole.
FORMATS: Mapping[str, Format] = {
    ".jsonl": Format("line", read_rows, read_jsonl_ids),
    ".json": Format("line", read_json),
    ".csv": Format("line", read_csv, read_csv_ids),
    ".tsv": Format("line", read_tsv, functools.partial(read_csv_ids, dialect=csv.excel_tab)),
    ".parquet": Format("row", read_parquet, read_parquet_ids),
}


def ending(path: Path) -> str:
    """Return the format's ending, such as `.csv` for `sums.csv` and `sums.csv.gz`; empty for unknown formats.

    >>> ending(Path("sums.CSV.gz")), ending(Path("sums.txt"))
    ('.csv', '')
    """
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    return suffix if suffix in FORMATS else ""


def format_of(path: Path) -> Format:
    """Return the format of a file. Raises DatasetError if the file is missing or of unknown format."""
    kinds = ", ".join(FORMATS)
    if not path.is_file():
        raise DatasetError(
            f"dataset {str(path)!r} does not exist: give the path of a file ({kinds}), or a dataset's name"
        )
    if not ending(path):
        raise DatasetError(f"dataset {str(path)!r} has an unknown format: its name must end in one of {kinds}")
    return FORMATS[ending(path)]
