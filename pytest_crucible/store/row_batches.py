"""Rows of the run store as Arrow record batches, as workers send them and Parquet parts have them. No value is pickled.

A batch has the rows of one table. Its schema names the table and tells whether the rows replace stored ones; columns that the rows
lack are absent. A column whose values its type cannot hold, such as 12.5 among integers, is written as JSON texts and marked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.spill_file import Rows, written_tables
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

_AS_JSON = {b"values": b"json"}
_encode = json.JSONEncoder().encode


def arrow_type(type: str) -> pa.DataType:
    """Return the Arrow type of a column by its type in the run store."""
    import pyarrow as pa

    numbers = {"INTEGER": pa.int64(), "BIGINT": pa.int64(), "FLOAT": pa.float64(), "BOOLEAN": pa.bool_()}
    return numbers.get(type) or (pa.binary() if type == "BLOB" else pa.string())


def encode_rows(rows: Iterable[Rows]) -> list[pa.RecordBatch]:
    """Return the rows of each table as a batch; tables without rows have none. All rows of a table have the same columns."""
    return [encode_table(table, many, overwrite=overwrite) for table, overwrite, many in rows if many]


def encode_table(table: Table, rows: Sequence[Mapping[str, Any]], *, overwrite: bool = False) -> pa.RecordBatch:
    """Return rows of a table, at least one, as a batch."""
    import pyarrow as pa

    columns = {name: _encode_column(table.type_of(name), [row[name] for row in rows]) for name in rows[0]}
    fields = [
        pa.field(name, values.type, metadata=_AS_JSON if is_odd else None) for name, (values, is_odd) in columns.items()
    ]
    metadata = {b"table": table.name.encode(), b"overwrite": b"1" if overwrite else b"0"}
    return pa.RecordBatch.from_arrays([values for values, _ in columns.values()], schema=pa.schema(fields, metadata))


def example_rows() -> list[pa.RecordBatch]:
    """Return a batch that says nothing, for a worker to send before its first block.

    pyarrow imports pandas for the first array, and Ray pydantic for the first answer: with four workers on two cores nothing was
    sent for a second after the first replies.
    """
    return [encode_table(schema.lost, [dict.fromkeys(schema.lost.names)])]


def decode_rows(batches: Iterable[pa.RecordBatch]) -> list[Rows]:
    """Return the rows of batches. Raises StoreError for a batch that has no rows of a table which a run writes."""
    return [_decode(batch) for batch in batches]


def has_odd_columns(schema: pa.Schema) -> bool:
    """Return whether a column of a batch is written as JSON because its type cannot hold it."""
    return any(field.metadata == _AS_JSON for field in schema)


def _encode_column(type_: str, values: list[Any]) -> tuple[pa.Array, bool]:
    """Return the values of a column, and whether they are JSON texts although its type is another."""
    import pyarrow as pa

    if type_ == "JSON":
        return pa.array([None if value is None else _encode(value) for value in values], pa.string()), False
    # Arrow would take 12.5 as 12, and 2**53 + 1 as another double.
    if _fits(type_, values):
        with contextlib.suppress(OverflowError):
            return pa.array(values, arrow_type(type_)), False
    return pa.array([None if value is None else _encode(value) for value in values], pa.string()), True


_PYTHON = {"INTEGER": int, "BIGINT": int, "FLOAT": float, "BOOLEAN": bool, "BLOB": bytes}
_EXACT = 2**53
"""Integers up to it are doubles, too."""


def _fits(type_: str, values: Sequence[Any]) -> bool:
    others = {*map(type, values)} - {NoneType, _PYTHON.get(type_, str)}
    is_count = type_ == "FLOAT" and others == {int}
    return not others or (is_count and all(abs(value) <= _EXACT for value in values if type(value) is int))


def _decode(batch: pa.RecordBatch) -> Rows:
    metadata = batch.schema.metadata or {}
    table = written_tables().get(metadata.get(b"table", b"").decode(errors="replace"))
    if table is None:
        raise StoreError(f"rows of table {metadata.get(b'table')!r} came: expected those of a table that a run writes")
    columns = [_decode_column(table, field, batch.column(at)) for at, field in enumerate(batch.schema)]
    names = batch.schema.names
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return table, metadata.get(b"overwrite") == b"1", rows


def _decode_column(table: Table, field: pa.Field, values: pa.Array) -> list[Any]:
    import pyarrow as pa

    is_odd = field.metadata == _AS_JSON
    if field.name not in table.names or field.type != (
        pa.string() if is_odd else arrow_type(table.type_of(field.name))
    ):
        raise StoreError(f"table {table.name!r} has no column {field.name!r} of type {field.type}: it was changed")
    plain: list[Any] = values.to_pylist()
    if is_odd or table.type_of(field.name) == "JSON":
        return [None if value is None else json.loads(value) for value in plain]
    return plain
