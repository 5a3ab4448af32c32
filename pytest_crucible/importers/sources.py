"""Open the sources of results: files by their signature and their ending, queries of DuckDB, and data frames."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_crucible.importers.large_files import large_lines, large_parquet, parse_line
from pytest_crucible.importers.results import Record, Source
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.row_files import FORMATS, ending, read_parquet, text_lines
from pytest_crucible.records.serialize import TooDeep, canonical, parse

QUERY = "duckdb:"
"""The beginning of a source that is a query."""
_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_DELIMITED = (".csv", ".tsv")


def is_source(name: str) -> bool:
    """Return whether a name is a query, or a path that exists."""
    return name.startswith(QUERY) or Path(name).exists()


def open_source(path: Path) -> Source:
    """Raises SpecError for a file that is missing, cut short or of no readable kind."""
    if not path.is_file():
        raise SpecError(f"{str(path)!r} is not a file: give the path of a log, or of a table of results")
    digest = hash_file(path)
    with path.open("rb") as file:
        head = file.read(16)
    try:
        # By signature, not by name: a renamed archive is still an archive.
        if head.startswith(b"PK"):
            return Source(path=path, sha256=digest, archive=_archive(path))
        if head.startswith(b"PAR1"):
            large = large_parquet(path, _plain)
            return Source(path=path, sha256=digest, rows=large or list(_plain_rows(read_parquet(path))))
        _refuse_binary(path, head)
        # A document of JSON under another name is no table: no column's name begins so.
        if ending(path) in _DELIMITED and head.lstrip()[:1] not in (b"{", b"["):
            return Source(path=path, sha256=digest, rows=list(FORMATS[ending(path)].read(path)))
        return _json(path, digest)
    except DatasetError as error:
        raise SpecError(str(error)) from error


def open_query(text: str) -> Source:
    """Return the rows of a query of DuckDB, `duckdb:SELECT ...`. Raises SpecError, also without duckdb."""
    try:
        import duckdb
    except ImportError:
        raise SpecError(f'{text!r} needs duckdb: pip install "pytest-crucible[scale]"') from None
    try:
        with duckdb.connect() as connection:
            answer: Any = connection.execute(text.removeprefix(QUERY))
            # DuckDB has no answer to a text without a statement.
            names = [column[0] for column in answer.description or ()] if answer else []
            _check_names(names, repr(text))
            records = [dict(zip(names, cells, strict=True)) for cells in answer.fetchall()] if answer else []
    except duckdb.Error as error:
        raise SpecError(
            f"DuckDB refused the query {text.removeprefix(QUERY)!r} ({str(error).splitlines()[0]}): correct it"
        ) from error
    return of_records(records, "query", repr(text))


def open_frame(frame: Any, name: str) -> Source:
    """Return the rows of a data frame of pandas or polars. Raises SpecError for anything else."""
    if hasattr(frame, "to_dicts"):
        return of_records(frame.to_dicts(), name, name)
    if hasattr(frame, "to_dict") and hasattr(frame, "columns"):
        _check_names([str(column) for column in frame.columns], name)
        return of_records(frame.astype(object).where(frame.notna(), None).to_dict("records"), name, name)
    raise SpecError(f"{name} is {type(frame).__name__}: give a data frame of pandas or polars, or the path of a file")


def _check_names(names: Iterable[str], described: str) -> None:
    """Raise SpecError for two columns of one name: a record would have the values of the last only."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"{described} has several columns {twice!r}: give each a name of its own")


def of_records(records: Iterable[Mapping[Any, Any]], name: str, described: str) -> Source:
    """Return records that are not in a file as a source. Raises SpecError if there are none."""
    rows = list(_plain_rows(enumerate(({str(key): cell for key, cell in row.items()} for row in records), start=1)))
    if not rows:
        raise SpecError(f"{described} has no rows: there is nothing to import")
    digest = hashlib.sha256(canonical([row for _, row in rows]).encode()).hexdigest()
    return Source(path=Path(f"{name}-{digest[:8]}" if name == "query" else name), sha256=digest, rows=rows)


def _plain_rows(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((line, {name: _plain(cell) for name, cell in row.items()}) for line, row in rows)


def _plain(cell: Any) -> Any:
    """Return a cell as a value of JSON: a decimal as a number, a time as ISO 8601, any other object as text."""
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    if isinstance(cell, Mapping):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(value) for value in cell]
    if isinstance(cell, Decimal):
        return float(cell)
    if hasattr(cell, "tolist"):
        # A number or an array of numpy.
        return _plain(cell.tolist())
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)


def read_beside(path: Path) -> Mapping[str, Any]:
    """Return a JSON document that is next to an imported file; empty if there is none. Raises SpecError for a damaged one."""
    if not path.is_file():
        return {}
    try:
        document = parse(json.loads, path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecError(
            f"{path} is not JSON ({error}): copy the folder of the run again, or remove the file"
        ) from error
    if not isinstance(document, dict):
        raise SpecError(f"{path} is not a JSON object: copy the folder of the run again, or remove the file")
    return document


@cache
def foreign_shapes() -> Mapping[str, Any]:
    """Return the formats that are recognised to be refused: by the bytes of a file, or by the fields of its records."""
    text = files("pytest_crucible.importers").joinpath("foreign_formats.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def foreign_name(source: Source) -> str:
    """Return a sentence on a source that is known, but has no scores to read; empty for any other."""
    fields = set(map(str, source.first))
    return next(
        (
            f"{source.path} is {shape['name']}: {shape['instead']}"
            for shape in foreign_shapes()["shape"]
            if fields.issuperset(shape["fields"])
        ),
        "",
    )


def _refuse_binary(path: Path, head: bytes) -> None:
    """Raise SpecError for a kind of file that another program is needed for."""
    for kind in foreign_shapes()["binary"]:
        # A reader of text opens what its name says is gzipped.
        if head[kind.get("at", 0) :].startswith(bytes.fromhex(kind["bytes"])) and path.suffix != ".gz":
            raise SpecError(f"{path} is {kind['name']}: {kind['instead'].format(path=path)}")


def _archive(path: Path) -> Any:
    """Inspect packs with Zstandard, which Python's own zipfile reads from 3.14 on."""
    if sys.version_info >= (3, 14):
        reader: Any = zipfile
    else:
        from backports.zstd import zipfile as reader
    try:
        archive: Any = reader.ZipFile(path)
    except reader.BadZipFile as error:
        raise SpecError(f"{path} is a damaged archive ({error}): copy it again after its run has ended") from error
    for kind in foreign_shapes()["archive"]:
        if kind["member"] in archive.namelist():
            raise SpecError(f"{path} is {kind['name']}: {kind['instead']}")
    return archive


def _json(path: Path, digest: str) -> Source:
    if (large := large_lines(path)) is not None:
        return Source(path=path, sha256=digest, rows=large)
    text = "".join(line for _, line in text_lines(path))
    if not text.strip():
        raise SpecError(f"{path} is empty: there is nothing to import")
    try:
        document = parse(json.loads, text)
    except TooDeep as error:
        raise SpecError(f"{path} {error}: flatten its values") from None
    except ValueError as error:
        rows = _rows(path, text)
        if rows is None:
            raise SpecError(
                f"{path} is neither JSON nor JSON lines ({error}): it may be incomplete: write it again"
            ) from error
        return Source(path=path, sha256=digest, rows=rows)
    if path.name.endswith(_LINES) and isinstance(document, dict) and "\n" not in text.strip():
        return Source(path=path, sha256=digest, rows=[(1, document)])
    return Source(path=path, sha256=digest, document=document)


def _rows(path: Path, text: str) -> list[tuple[int, Record]] | None:
    """Return the objects of a text with one on each line; None if its first line is not a whole object."""
    rows: list[tuple[int, Record]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = parse_line(path, number, line)
        except SpecError as error:
            # Nothing shows yet that the file has one object per line, so the caller reports it as neither.
            if not rows and error.__cause__:
                return None
            raise
        if not isinstance(row, dict):
            return None
        rows.append((number, row))
    return rows
