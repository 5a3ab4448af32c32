"""The keys of the rows that a commit added and removed, as compact bytes: by column, and integers as steps."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, NamedTuple

from pytest_crucible.records.errors import StoreError

CHECKSUM_BYTES = 3
"""Of each row's hash. They name the row: of 16 million changed rows one would not be named, although its seal shows it.

With 4, the rerun of a suite would add more than 300 bytes a sample (`python -m benchmarks.store_bytes`).
"""
HASH_BYTES = 32
"""Of a removed row, whose hash cannot be computed again."""


class KeyedRows(NamedTuple):
    """Rows of one table that a commit added or removed."""

    table: str
    is_removed: bool
    rows: int
    keys: Sequence[Sequence[Any]]
    """The values of each column of the key."""

    def all_keys(self) -> Iterator[tuple[Any, ...]]:
        """Return the key of each row."""
        return zip(*self.keys, strict=True)


def pack_keys(parts: Sequence[KeyedRows]) -> bytes:
    """Return the keys of a commit's rows as bytes."""
    plain = [
        [part.table, int(part.is_removed), part.rows, [_pack_column(column) for column in part.keys]] for part in parts
    ]
    return zlib.compress(_ENCODE(plain).encode(), _LEVEL)


def unpack_keys(packed: bytes, checksums: int) -> list[KeyedRows]:
    """Return the keys that were packed, of rows with so many bytes of checksums. Raises StoreError for bytes of another origin."""
    try:
        plain = json.loads(zlib.decompress(packed))
        sizes = [rows * (HASH_BYTES if is_removed else CHECKSUM_BYTES) for _, is_removed, rows, _ in plain]
        # Before a number that somebody has changed takes all the memory.
        if sum(sizes) != checksums or min(sizes) < 0:
            raise ValueError(f"{checksums} bytes of checksums")
        return [
            KeyedRows(str(table), bool(is_removed), rows, [_unpack_column(column, rows) for column in keys])
            for table, is_removed, rows, keys in plain
        ]
    except (zlib.error, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(f"the keys of a seal cannot be read: {error}") from error


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_LEVEL = 6


def _pack_column(values: Sequence[Any]) -> Any:
    """Return a column as a single value if all are equal; integers as the first one and the steps; texts as they are."""
    first = values[0]
    if values.count(first) == len(values):
        return first
    if isinstance(first, int):
        return {"steps": [first, *map(sub, values[1:], values)]}
    return list(values)


def _unpack_column(packed: Any, rows: int) -> Sequence[Any]:
    if isinstance(packed, dict):
        # A number takes 8 bytes in an array, and 36 in a list.
        values: Sequence[Any] = array("q", accumulate(packed["steps"]))
    else:
        values = packed if isinstance(packed, list) else [packed] * rows
    if len(values) != rows or not {*map(type, values)} <= {int, str}:
        raise ValueError(f"{len(values)} keys of {rows} rows")
    return values
