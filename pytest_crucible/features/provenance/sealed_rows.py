"""The rows that stored seals say should be there, and what is found of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple

from pytest_crucible.features.provenance.run_rows import Owner
from pytest_crucible.features.provenance.seals import (
    CHECKSUM_BYTES,
    HASH_BYTES,
    KeyedRows,
    Seal,
    first_seal,
    next_seal,
    unpack_keys,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection

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


class SealedPart(NamedTuple):
    """The rows of one table in a stored seal."""

    keys: KeyedRows
    first_row: int
    """The number of its first row among the added rows of all seals."""
    checksums: bytes
    """Of its rows; of removed ones their hashes."""

    def hashes(self) -> Iterator[bytes]:
        """Yield the hashes of removed rows."""
        return (self.checksums[k : k + HASH_BYTES] for k in range(0, len(self.checksums), HASH_BYTES))


class StoredSeal(NamedTuple):
    """A seal as it is stored."""

    number: int
    sha256: bytes
    packed: bytes
    """The keys of its rows."""
    parts: Sequence[SealedPart] | None
    """None for a seal that cannot be read any more."""


@dataclass(slots=True)
class SealedRows:
    """The rows of all seals of a run. Each added row has a number, in the order of the seals."""

    chains: list[tuple[Owner, int, list[StoredSeal]]] = field(default_factory=list)
    """Owner, id and seals of each chain."""
    parts: dict[str, list[SealedPart]] = field(default_factory=dict)
    """By table, in the order of the seals."""
    checksums: bytearray = field(default_factory=bytearray)
    hashes: bytearray = field(default_factory=bytearray)
    """Of each added row, as soon as it is known: from the row itself, or from the seal of its removal."""
    is_known: bytearray = field(default_factory=bytearray)

    def add_chain(self, owner: Owner, chain: int, rows: Iterable[tuple[int, bytes, bytes, bytes]]) -> None:
        """Add the seals of a chain: number, hash, keys and checksums of each, in order."""
        self.chains.append((owner, chain, [self._add_seal(*row) for row in rows]))

    def _add_seal(self, number: int, sha256: bytes, keys: bytes, checksums: bytes) -> StoredSeal:
        # SQLite takes a text for a number, and for bytes.
        number = number if isinstance(number, int) else 0
        try:
            if not isinstance(checksums, bytes):
                raise StoreError("the checksums of a seal are a text")
            parts = unpack_keys(keys, len(checksums))
        except StoreError:
            return StoredSeal(number, sha256, keys, None)
        sealed, place = list[SealedPart](), 0
        for part in parts:
            size = part.rows * (HASH_BYTES if part.is_removed else CHECKSUM_BYTES)
            sealed.append(SealedPart(part, len(self.is_known), checksums[place : place + size]))
            place += size
            if not part.is_removed:
                self.checksums += sealed[-1].checksums
                self.hashes += bytes(HASH_BYTES * part.rows)
                self.is_known += bytes(part.rows)
            self.parts.setdefault(part.table, []).append(sealed[-1])
        return StoredSeal(number, sha256, keys, sealed)

    def has_checksum(self, number: int, hash: bytes) -> bool:
        place = CHECKSUM_BYTES * number
        return self.checksums[place : place + CHECKSUM_BYTES] == hash[:CHECKSUM_BYTES]

    def set_hash(self, number: int, hash: bytes) -> None:
        self.is_known[number] = 1
        self.hashes[HASH_BYTES * number : HASH_BYTES * (number + 1)] = hash

    def broken_seals(self) -> Iterator[BrokenSeal]:
        """Yield each seal that is missing, or that was changed: it does not match, although each of its rows does.

        Call this when the rows of all tables were matched.
        """
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
        hashes = [part.checksums if part.keys.is_removed else self._hashes_of(part) for part in seal.parts]
        if seal.number != before.number + 1 or None in hashes:
            return seal.sha256
        return next_seal(before, seal.packed, [part for part in hashes if part is not None]).sha256

    def _hashes_of(self, part: SealedPart) -> bytes | None:
        """Return the hashes of the added rows of a part; None unless all are known."""
        first, end = part.first_row, part.first_row + part.keys.rows
        return None if 0 in self.is_known[first:end] else bytes(self.hashes[HASH_BYTES * first : HASH_BYTES * end])


class TableRows:
    """The rows that should be in one table. The rows of a run are many: those of one table at a time are in memory."""

    def __init__(self, sealed: SealedRows, table: str) -> None:
        self._sealed, self._table = sealed, table
        self._numbers: dict[Key, int] = {}
        """Key -> number of the row that was added last."""
        self._earlier: dict[int, int] = {}
        """Number of a row -> that of the row with the same key that was added before it."""
        parts = sealed.parts.get(table, ())
        for part in parts:
            if not part.keys.is_removed:
                self._add(part)
        self.edits = [
            EditedRow(table, key, "changed")
            for part in parts
            if part.keys.is_removed
            for key, hash in zip(part.keys.all_keys(), part.hashes(), strict=True)
            if not self._match_removal(key, hash)
        ]
        """Rows that had been changed when the package replaced or removed them."""

    def _add(self, part: SealedPart) -> None:
        numbers = self._numbers
        for number, key in enumerate(part.keys.all_keys(), start=part.first_row):
            if key in numbers:
                self._earlier[number] = numbers[key]
            numbers[key] = number

    def _match_removal(self, key: Key, hash: bytes) -> bool:
        """Give the row that was removed the hash that it had then; return whether it is one that was added."""
        sealed = self._sealed
        for number in self._pending(key):
            if sealed.has_checksum(number, hash):
                sealed.set_hash(number, hash)
                return True
        return False

    def match(self, keys: Iterable[Key], hashes: Iterable[bytes]) -> None:
        """Compare rows that are stored with those that should be."""
        numbers, earlier, sealed = self._numbers, self._earlier, self._sealed
        has_checksum, set_hash, is_known = sealed.has_checksum, sealed.set_hash, sealed.is_known
        for key, hash in zip(keys, hashes, strict=True):
            number = numbers.get(key)
            # Nearly every row was added once, and is as it was.
            if number is not None and number not in earlier and not is_known[number] and has_checksum(number, hash):
                set_hash(number, hash)
            elif (edit := self._find_edit(key, hash)) is not None:
                self.edits.append(EditedRow(self._table, key, edit))

    def _find_edit(self, key: Key, hash: bytes) -> Edit | None:
        pending = list(self._pending(key))
        if not pending:
            return "added"
        if not all(self._sealed.has_checksum(number, hash) for number in pending):
            # What it was is known no more: it must not count as removed, too.
            self._numbers.pop(key)
            return "changed"
        for number in pending:
            self._sealed.set_hash(number, hash)
        return None

    def add_missing(self) -> None:
        """Add the rows that should be there and were not matched."""
        self.edits += [EditedRow(self._table, key, "removed") for key in self._numbers if [*self._pending(key)]]

    def _pending(self, key: Key) -> Iterator[int]:
        """Yield the numbers of the rows with a key that have not been found yet."""
        number = self._numbers.get(key)
        while number is not None:
            if not self._sealed.is_known[number]:
                yield number
            number = self._earlier.get(number)


def load_seals(connection: Connection, owners: Sequence[Owner]) -> SealedRows:
    """Return the sealed rows of some owners."""
    sealed = SealedRows()
    chains = "SELECT id, kind, owner FROM seal_chains WHERE kind = :kind AND owner = :key ORDER BY begun, id"
    query = "SELECT number, sha256, keys, checksums FROM seals WHERE chain = :chain ORDER BY number"
    for owner in owners:
        for chain, *_ in connection.execute(chains, **owner._asdict()).fetchall():
            sealed.add_chain(owner, chain, connection.execute(query, chain=chain))
    return sealed
