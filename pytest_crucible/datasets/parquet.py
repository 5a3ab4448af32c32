"""Read Parquet files with pyarrow, an extra."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import DatasetError


def read_parquet(path: Path, *, only: Container[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, row), or only the rows of these numbers. Raises DatasetError, also without pyarrow."""
    with _open(path) as file:
        first = 1
        for group in range(file.num_row_groups):
            numbers = range(first, first + file.metadata.row_group(group).num_rows)
            first = numbers.stop
            # A row group without a needed row is not even decompressed.
            if only is None or any(number in only for number in numbers):
                yield from _group_rows(file, group, numbers, only)


def read_parquet_ids(path: Path, field: str) -> Iterator[tuple[int, Any]]:
    """Yield (row number, value of the column, or None without such a column); no other column is read. Raises DatasetError."""
    with _open(path) as file:
        if field not in file.schema_arrow.names:
            yield from ((number, None) for number in range(1, file.metadata.num_rows + 1))
            return
        number = 0
        for batch in file.iter_batches(columns=[field]):
            for row in batch.to_pylist():
                number += 1
                yield number, row[field]


def _group_rows(
    file: Any, group: int, numbers: range, only: Container[int] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    first = numbers.start
    for batch in file.iter_batches(row_groups=[group]):
        places = [place for place in range(batch.num_rows) if only is None or first + place in only]
        if places:
            rows = batch if len(places) == batch.num_rows else batch.take(places)
            yield from zip((first + place for place in places), rows.to_pylist(), strict=True)
        first += batch.num_rows


@contextlib.contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file. Its errors become DatasetErrors, now and while it is read."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise DatasetError(f'{path} needs pyarrow: pip install "pytest-crucible[parquet]"') from None
    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, ArrowException) as error:
        raise DatasetError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]})") from error
