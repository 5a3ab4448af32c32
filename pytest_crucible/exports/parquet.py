"""Write Parquet files (extra `parquet`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import IO, Any

from pytest_crucible.exports.text import cell
from pytest_crucible.records import ExportTable
from pytest_crucible.records.errors import SpecError

try:
    import pyarrow
    from pyarrow.parquet import ParquetWriter
except ModuleNotFoundError as error:
    raise SpecError(
        'Parquet files need pyarrow, which is not installed: pip install "pytest-crucible[parquet]"'
    ) from error

# Rows in one row group. A group is in memory as a whole while it is written.
_ROW_GROUP = 10_000
_TYPES = {
    "text": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "flag": pyarrow.bool_(),
    "json": pyarrow.string(),
}


def write_parquet(table: ExportTable, file: IO[bytes]) -> int:
    """Write the table and return the number of rows. A `json` column holds texts."""
    schema = pyarrow.schema([(name, _TYPES[kind]) for name, kind in table.columns.items()])
    count = 0
    with ParquetWriter(file, schema) as writer:
        for rows in _batches(table.rows):
            columns = [
                pyarrow.array([_escape_surrogates(cell(value, kind)) for value in column], type=_TYPES[kind])
                for column, kind in zip(zip(*rows, strict=True), table.columns.values(), strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
            count += len(rows)
    return count


def _batches(rows: Any) -> Iterator[Sequence[tuple[Any, ...]]]:
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, _ROW_GROUP)):
        yield batch


def _escape_surrogates(value: Any) -> Any:
    """Return the text with lone surrogates escaped, which a prompt may contain and UTF-8 cannot encode."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
