"""Seals the rows of each commit: a hash of each row, and of the seal before it, in the same transaction.

A process has a chain of seals for each run that it writes to, and for each dataset that it is the first to store.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, chain, compress
from operator import sub
from typing import Any, NamedTuple

from pytest_crucible.features.provenance.canonical_rows import row_hashes
from pytest_crucible.features.provenance.run_rows import Owner, OwnerColumn, find_owner, owner_column
from pytest_crucible.features.provenance.tables import seal_chains, seals
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection
from pytest_crucible.store.table import RowChange, Table


@dataclass(frozen=True, slots=True)
class Seal:
    """The last seal of a chain so far."""

    chain: int
    number: int
    sha256: bytes


def first_seal(chain: int, owner: Owner) -> Seal:
    """Return what stands for the seal before the first one: a chain cannot be given to another owner."""
    return Seal(chain, 0, hashlib.sha256(f"{owner.kind} {owner.key} {chain}".encode()).digest())


def next_seal(before: Seal, keys: bytes, hashes: Sequence[bytes]) -> Seal:
    """Return the seal of a commit: the SHA-256 of the seal before it, of its keys, and of the hashes of its rows.

    `hashes` are those of its rows one after the other, in any parts.
    """
    content = hashlib.sha256(b"".join((before.sha256, len(keys).to_bytes(8, "big"), keys)))
    for part in hashes:
        content.update(part)
    return Seal(before.chain, before.number + 1, content.digest())


class Sealer:
    """Seals what is committed through the connections of one run store."""

    def __init__(self) -> None:
        self._chains: dict[Owner, Seal] = {}
        self._owners: dict[tuple[OwnerColumn, Any], Owner | None] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def covers(self, table: Table) -> bool:
        return owner_column(table) is not None

    def prepare(self, connection: Connection, change: RowChange) -> list[tuple[Owner, _Part]]:
        place = owner_column(change.table)
        return [] if place is None else list(self._parts(connection, change, place))

    @contextmanager
    def committing(self, connection: Connection, prepared: Sequence[list[tuple[Owner, _Part]]]) -> Iterator[None]:
        parts: defaultdict[Owner, list[_Part]] = defaultdict(list)
        for owner, part in chain.from_iterable(prepared):
            parts[owner].append(part)
        # Held until the seals are committed: the next one of a chain needs the hash of the last that is there.
        with self._lock:
            sealed = {owner: self._seal(connection, owner, of_owner) for owner, of_owner in parts.items()}
            yield
            self._chains |= sealed

    def lacks(self, connection: Connection, table: Table, key: str) -> bool:
        owner = Owner(table.name, key)
        chains = "SELECT COUNT(*) FROM seal_chains WHERE kind = :kind AND owner = :key"
        return owner not in self._chains and not connection.scalar(chains, **owner._asdict())

    def forget(self, connection: Connection, table: Table, key: str) -> None:
        owner = Owner(table.name, key)
        chains = "SELECT id FROM seal_chains WHERE kind = :kind AND owner = :key"
        connection.execute(f"DELETE FROM seals WHERE chain IN ({chains})", **owner._asdict())
        connection.execute("DELETE FROM seal_chains WHERE kind = :kind AND owner = :key", **owner._asdict())
        self._chains.pop(owner, None)
        # A database may give the number of a deleted experiment to another one.
        self._owners.clear()

    def _seal(self, connection: Connection, owner: Owner, parts: Sequence[_Part]) -> Seal:
        keys = pack_keys([part.keys for part in parts])
        seal = next_seal(self._last_seal(connection, owner), keys, [part.hashes for part in parts])
        checksums = b"".join(part.checksums() for part in parts)
        row = {"chain": seal.chain, "number": seal.number, "sha256": seal.sha256, "keys": keys, "checksums": checksums}
        connection.insert(seals, [row])
        return seal

    def _last_seal(self, connection: Connection, owner: Owner) -> Seal:
        if self._process != os.getpid():
            # A process that was forked must not continue the chains of the other one.
            self._chains, self._process = {}, os.getpid()
        if owner not in self._chains:
            first = first_seal(secrets.randbits(63), owner)
            row = {"id": first.chain, "kind": owner.kind, "owner": owner.key, "begun": time.time()}
            connection.insert(seal_chains, [row])
            return first
        return self._chains[owner]

    def _parts(self, connection: Connection, change: RowChange, place: OwnerColumn) -> Iterator[tuple[Owner, _Part]]:
        values = change.columns[place.column]
        owners = {value: self._owner(connection, place, value) for value in dict.fromkeys(values)}
        for owner in dict.fromkeys(owners.values()):
            if owner is not None:
                # Nearly always all rows are of one run.
                is_only = all(other == owner for other in owners.values())
                yield (
                    owner,
                    _part(connection, change if is_only else _select(change, [owners[v] == owner for v in values])),
                )

    def _owner(self, connection: Connection, place: OwnerColumn, value: Any) -> Owner | None:
        key = (place, value)
        if key not in self._owners:
            self._owners[key] = find_owner(connection, place, value)
        return self._owners[key]


class _Part(NamedTuple):
    """The rows of one table in a commit."""

    keys: KeyedRows
    hashes: bytes
    """Those of all rows: a dataset of a million samples is one commit, and each would be an object of its own."""

    def checksums(self) -> bytes:
        """Return what is stored of the hashes: all of a row that is removed, since it cannot be hashed again."""
        if self.keys.is_removed:
            return self.hashes
        checksums = bytearray(CHECKSUM_BYTES * self.keys.rows)
        for byte in range(CHECKSUM_BYTES):
            checksums[byte::CHECKSUM_BYTES] = self.hashes[byte::HASH_BYTES]
        return bytes(checksums)


def _select(change: RowChange, is_selected: Sequence[bool]) -> RowChange:
    """Return a change of some of its rows."""
    columns = {name: [*compress(values, is_selected)] for name, values in change.columns.items()}
    return replace(change, columns=columns, rows=sum(is_selected))


def _part(connection: Connection, change: RowChange) -> _Part:
    """Return the keys and hashes of the rows of a change."""
    hashes = row_hashes(change.table, change.columns, change.rows, _as_stored(connection))
    keys = [change.columns[name] for name in change.table.key]
    return _Part(KeyedRows(change.table.name, change.is_removed, change.rows, keys), b"".join(hashes))


def _as_stored(connection: Connection) -> Any:
    """Return a function that returns a number, or the text of one in a JSON column, as the database has it."""

    def convert(type: str, value: Any) -> Any:
        if connection.is_sqlite:
            # A text that is a number is stored as one in a JSON column: https://sqlite.org/datatype3.html
            return connection.scalar("SELECT CAST(:value AS NUMERIC)", value=value)
        return value if type == "JSON" else connection.scalar("SELECT CAST(:value AS BIGINT)", value=value)

    return convert


LISTENERS = (Sealer,)


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
