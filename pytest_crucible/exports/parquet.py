"""Parquet (extra `parquet`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import IO, Any

from pytest_crucible.errors import SpecError
from pytest_crucible.exports.text import cell
from pytest_crucible.records import Table

try:
    import pyarrow
    from pyarrow.parquet import ParquetWriter
except ModuleNotFoundError as error:
    raise SpecError(
        'Parquet files need pyarrow, which is not installed: pip install "pytest-crucible[parquet]"'
    ) from error

_AT_ONCE = 10_000
"""Rows of one row group: what is in memory at a time."""
_TYPES = {
    "text": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "flag": pyarrow.bool_(),
    "json": pyarrow.string(),
}


def write_parquet(table: Table, file: IO[bytes]) -> int:
    """Rows written. A `json` column holds texts."""
    schema = pyarrow.schema([(name, _TYPES[kind]) for name, kind in table.columns.items()])
    count = 0
    with ParquetWriter(file, schema) as writer:
        for rows in _batches(table.rows):
            columns = [
                pyarrow.array([_whole(cell(value, kind)) for value in column], type=_TYPES[kind])
                for column, kind in zip(zip(*rows, strict=True), table.columns.values(), strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
            count += len(rows)
    return count


def _batches(rows: Any) -> Iterator[Sequence[tuple[Any, ...]]]:
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, _AT_ONCE)):
        yield batch


def _whole(value: Any) -> Any:
    """Half of a surrogate pair, which a prompt may have, as its escape."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
