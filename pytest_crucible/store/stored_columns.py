"""Rows as a database returns them, as Arrow tables: JSON is text there, and SQLite has numbers for true and false."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_crucible.store.database import Cursor
from pytest_crucible.store.row_batches import arrow_type
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1 << 16
"""Rows that are Python objects at a time."""


class OddValueError(ValueError):
    """A stored value that the type of its column cannot hold, such as 12.5 among integers in SQLite."""


def arrow_chunks(table: Table, names: Sequence[str], cursor: Cursor, *, widens: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of a result in tables. Raises OddValueError, unless it `widens` integers to doubles."""
    import pyarrow as pa

    while rows := cursor.fetchmany(CHUNK_ROWS):
        arrays = [
            _column(table.type_of(name), values, widens=widens)
            for name, values in zip(names, zip(*rows, strict=True), strict=True)
        ]
        yield pa.Table.from_arrays(arrays, names=list(names))


def _column(type: str, values: Sequence[Any], *, widens: bool) -> pa.Array:
    import pyarrow as pa

    if (convert := _CONVERTED.get(type)) is not None:
        values = [None if value is None else convert(value) for value in values]
    if type in ("INTEGER", "BIGINT") and any(isinstance(value, float) for value in values):
        if not widens:
            raise OddValueError
        type = "FLOAT"
    try:
        return pa.array(values, arrow_type(type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise OddValueError from error


# SQLite has a number in a JSON column as such: https://sqlite.org/datatype3.html
_CONVERTED: Mapping[str, Callable[[Any], Any]] = {"BOOLEAN": bool, "JSON": str, "FLOAT": float}
