"""The keys of the rows that a commit added and removed, as compact bytes: by column, and integers as steps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pytest_crucible.records.errors import StoreError


class KeyedRows(NamedTuple):
    """Rows of one table that a commit added or removed."""

    table: str
    is_removed: bool
    rows: int
    keys: Sequence[Sequence[Any]]
    """The values of each column of the key."""


def pack_keys(parts: Sequence[KeyedRows]) -> bytes:
    """Return the keys of a commit's rows as bytes."""
    plain = [
        [part.table, int(part.is_removed), part.rows, [_pack_column(column) for column in part.keys]] for part in parts
    ]
    return zlib.compress(_ENCODE(plain).encode(), _LEVEL)


def unpack_keys(packed: bytes) -> list[KeyedRows]:
    """Return the keys that were packed. Raises StoreError for bytes that `pack_keys` did not make."""
    try:
        plain = json.loads(zlib.decompress(packed))
        return [
            KeyedRows(table, bool(is_removed), rows, [_unpack_column(column, rows) for column in keys])
            for table, is_removed, rows, keys in plain
        ]
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"the keys of a seal cannot be read: {error}") from error


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_LEVEL = 6


def _pack_column(values: Sequence[Any]) -> Any:
    """Return a column as a single value if all are equal; integers as the first one and the steps; texts as they are."""
    first = values[0]
    if values.count(first) == len(values):
        return first
    if isinstance(first, int):
        return {"steps": [first, *(after - before for before, after in pairwise(values))]}
    return list(values)


def _unpack_column(packed: Any, rows: int) -> list[Any]:
    if isinstance(packed, dict):
        values = list(accumulate(packed["steps"]))
    else:
        values = packed if isinstance(packed, list) else [packed] * rows
    if len(values) != rows:
        raise ValueError(f"{len(values)} keys of {rows} rows")
    return values
