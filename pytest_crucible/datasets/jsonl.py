"""Read JSON lines; errors name the line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.nesting import TooDeep, parse
from pytest_crucible.records.type_names import describe_json_type


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
                yield line, _row(text, path, line, allow_nan=allow_nan)
    if empty:
        raise DatasetError(f"{what} {str(path)!r} is empty: write one JSON object per line")


def read_ids(path: Path, field: str) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value of the field) for each line that is not blank. Lines without the field are not parsed."""
    # A key may be written with escapes, such as "\u0069d".
    keys = {json.dumps(field), json.dumps(field, ensure_ascii=False), "\\u", "\\/"}
    for line, text in text_lines(path):
        if any(key in text for key in keys):
            yield line, _row(text, path, line).get(field)
        elif text.strip():
            yield line, None


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text with its line end) for each line of a UTF-8 file, with or without a byte order mark.

    Raises DatasetError if the file cannot be read.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    line = 0
    try:
        with opener(path, "rb") as file:
            for line, raw in enumerate(file, start=1):
                # Decoded line by line, because a decoder that reads ahead would make the line number of an error wrong.
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
                yield line, text
    except UnicodeDecodeError as error:
        raise DatasetError(f"line {line} of {path} is not UTF-8 ({error.reason}): save the file as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def _row(text: str, path: Path, line: int, *, allow_nan: bool = False) -> dict[str, Any]:
    try:
        row = parse(json.loads if allow_nan else DECODER.decode, text)
    except TooDeep as error:
        raise DatasetError(f"line {line} of {path} {error}: flatten its values") from None
    except ValueError as error:
        raise DatasetError(f"line {line} of {path} is not JSON ({error}): write one JSON object per line") from error
    if not isinstance(row, dict):
        raise DatasetError(f"line {line} of {path} is {describe_json_type(row)}: write one object per line")
    return row
