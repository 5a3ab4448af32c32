"""The rows that stored seals say should be there, and what is found of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pytest_crucible.features.provenance.run_rows import Owner
from pytest_crucible.features.provenance.seal_keys import KeyedRows, unpack_keys
from pytest_crucible.features.provenance.seals import CHECKSUM_BYTES, Seal, first_seal, next_seal
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection

HASH_BYTES = 32
Key = tuple[Any, ...]
Edit = Literal["changed", "added", "removed"]


class EditedRow(NamedTuple):
    """A row that is not as it was written."""

    table: str
    key: Key
    edit: Edit


class BrokenSeal(NamedTuple):
    """A seal that is missing, or that was changed."""

    chain: int
    number: int
    is_missing: bool


class StoredSeal(NamedTuple):
    """A seal as it is stored."""

    number: int
    sha256: bytes
    keys: bytes
    parts: Sequence[KeyedRows] | None
    """None for a seal that cannot be read any more."""
    checksums: bytes
    first_row: int
    """The number that its first added row has among those of all seals."""


@dataclass(slots=True)
class SealedRows:
    """The rows of all seals of a run. Each added row has a number, in the order of the seals."""

    chains: list[tuple[Owner, int, list[StoredSeal]]] = field(default_factory=list)
    """Owner, id and seals of each chain."""
    checksums: bytearray = field(default_factory=bytearray)
    hashes: bytearray = field(default_factory=bytearray)
    """Of each added row, as soon as it is known: from the row itself, or from the seal of its removal."""
    is_known: bytearray = field(default_factory=bytearray)
    rows: dict[str, dict[Key, int]] = field(default_factory=dict)
    """Table -> key -> the number of the row that was added last."""
    earlier: dict[int, int] = field(default_factory=dict)
    """Number of an added row -> that of the row with the same key that was added before it."""
    edits: list[EditedRow] = field(default_factory=list)
    """Rows that had been changed when they were replaced or removed."""

    def add_chain(self, owner: Owner, chain: int, rows: Iterable[tuple[int, bytes, bytes, bytes]]) -> None:
        """Add the seals of a chain: number, hash, keys and checksums of each, in order."""
        self.chains.append((owner, chain, [self._add_seal(*row) for row in rows]))

    def _add_seal(self, number: int, sha256: bytes, keys: bytes, checksums: bytes) -> StoredSeal:
        first = len(self.is_known)
        try:
            parts = _read_parts(keys, checksums)
        except StoreError:
            return StoredSeal(number, sha256, keys, None, checksums, first)
        place = 0
        for part in parts:
            size = HASH_BYTES if part.is_removed else CHECKSUM_BYTES
            if not part.is_removed:
                self._add_rows(part, checksums[place : place + size * part.rows])
            place += size * part.rows
        return StoredSeal(number, sha256, keys, parts, checksums, first)

    def _add_rows(self, part: KeyedRows, checksums: bytes) -> None:
        of_table = self.rows.setdefault(part.table, {})
        for number, key in enumerate(zip(*part.keys, strict=True), start=len(self.is_known)):
            if key in of_table:
                self.earlier[number] = of_table[key]
            of_table[key] = number
        self.checksums += checksums
        self.hashes += bytes(HASH_BYTES * part.rows)
        self.is_known += bytes(part.rows)

    def match_removals(self) -> None:
        """Give the rows that were removed or replaced the hashes that they had then. Call this when all chains are added."""
        for _, _, stored in self.chains:
            for seal in stored:
                for table, key, hash in removed_rows(seal):
                    self._match_removal(table, key, hash)

    def _match_removal(self, table: str, key: Key, hash: bytes) -> None:
        for number in self._numbers(table, key):
            if not self.is_known[number] and self._has_checksum(number, hash):
                self._set_hash(number, hash)
                return
        self.edits.append(EditedRow(table, key, "changed"))

    def match_row(self, table: str, key: Key, hash: bytes) -> Edit | None:
        """Return what was done to a row that is there; None if it is as it was written."""
        numbers = [number for number in self._numbers(table, key) if not self.is_known[number]]
        if not numbers:
            return "added"
        for number in numbers:
            if not self._has_checksum(number, hash):
                return "changed"
            self._set_hash(number, hash)
        return None

    def missing_rows(self, table: str, stored: set[Key]) -> Iterator[Key]:
        """Yield the keys of rows that should be there and are not among those that are stored."""
        for key in self.rows.get(table, {}):
            if key not in stored and not all(self.is_known[number] for number in self._numbers(table, key)):
                yield key

    def broken_seals(self) -> Iterator[BrokenSeal]:
        """Yield each seal that is missing, or that was changed: it does not match, although each of its rows does."""
        for owner, chain, stored in self.chains:
            before = first_seal(chain, owner)
            for seal in stored:
                computed = self._compute(before, seal)
                if seal.number != before.number + 1:
                    yield BrokenSeal(chain, before.number + 1, is_missing=True)
                elif computed != seal.sha256:
                    yield BrokenSeal(chain, seal.number, is_missing=False)
                # After a seal whose hash alone was changed, the next one matches.
                before = Seal(chain, seal.number, computed or seal.sha256)

    def _compute(self, before: Seal, seal: StoredSeal) -> bytes:
        """Return the hash that a seal should have; the one that it has, where a row of it is not as it was written."""
        if seal.parts is None or not isinstance(before.sha256, bytes):
            return b""
        end = seal.first_row + sum(part.rows for part in seal.parts if not part.is_removed)
        if seal.number != before.number + 1 or 0 in self.is_known[seal.first_row : end]:
            return seal.sha256
        return next_seal(before, seal.keys, self._hashes_of(seal)).sha256

    def _hashes_of(self, seal: StoredSeal) -> list[bytes]:
        removed = iter([hash for _, _, hash in removed_rows(seal)])
        number, hashes = seal.first_row, list[bytes]()
        for part in seal.parts or ():
            if part.is_removed:
                hashes += [next(removed) for _ in range(part.rows)]
            else:
                hashes.append(bytes(self.hashes[HASH_BYTES * number : HASH_BYTES * (number + part.rows)]))
                number += part.rows
        return hashes

    def _numbers(self, table: str, key: Key) -> Iterator[int]:
        number = self.rows.get(table, {}).get(key)
        while number is not None:
            yield number
            number = self.earlier.get(number)

    def _has_checksum(self, number: int, hash: bytes) -> bool:
        place = CHECKSUM_BYTES * number
        return self.checksums[place : place + CHECKSUM_BYTES] == hash[:CHECKSUM_BYTES]

    def _set_hash(self, number: int, hash: bytes) -> None:
        self.is_known[number] = 1
        self.hashes[HASH_BYTES * number : HASH_BYTES * (number + 1)] = hash


def _read_parts(keys: bytes, checksums: bytes) -> list[KeyedRows]:
    """Return the parts of a seal. Raises StoreError for a seal that was changed beyond that."""
    parts = unpack_keys(keys)
    sizes = (part.rows * (HASH_BYTES if part.is_removed else CHECKSUM_BYTES) for part in parts)
    if not isinstance(checksums, bytes) or sum(sizes) != len(checksums):
        raise StoreError("a seal has checksums of other rows than its keys")
    return parts


def removed_rows(seal: StoredSeal) -> Iterator[tuple[str, Key, bytes]]:
    """Yield table, key and hash of each row that a commit removed."""
    place = 0
    for part in seal.parts or ():
        if not part.is_removed:
            place += CHECKSUM_BYTES * part.rows
            continue
        for key in zip(*part.keys, strict=True):
            yield part.table, key, seal.checksums[place : place + HASH_BYTES]
            place += HASH_BYTES


def load_seals(connection: Connection, owners: Sequence[Owner]) -> SealedRows:
    """Return the sealed rows of some owners."""
    sealed = SealedRows()
    chains = "SELECT id, kind, owner FROM seal_chains WHERE kind = :kind AND owner = :key ORDER BY begun, id"
    query = "SELECT number, sha256, keys, checksums FROM seals WHERE chain = :chain ORDER BY number"
    for owner in owners:
        for chain, *_ in connection.execute(chains, **owner._asdict()).fetchall():
            sealed.add_chain(owner, chain, connection.execute(query, chain=chain))
    sealed.match_removals()
    return sealed
