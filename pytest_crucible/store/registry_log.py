"""The log of the model registry: rows that each hash the one before, and the head, which names the last row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, insert, literal, select, union_all, update

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.engine import insert_or_ignore


class Head(NamedTuple):
    """The last row of the log: its number, and its digest."""

    number: int
    digest: str


class LogRow(NamedTuple):
    """One stored row of the log."""

    number: int
    body: str
    digest: str


EMPTY = Head(0, "")
"""The head of a log without rows."""


def read_log(connection: Connection) -> tuple[list[LogRow], Head]:
    """Return all rows of the log in their order, and the head."""
    log, head = schema.registry_log.c, schema.registry_head.c
    # One statement sees rows and head as they were at one moment: two would take a transition in between for a broken log.
    query = union_all(
        select(literal(False).label("is_head"), log.number.label("number"), log.body, log.digest),
        select(literal(True), head.number, literal(""), head.digest),
    ).order_by("is_head", "number")
    read = connection.execute(query).all()
    heads = [Head(number, digest) for is_head, number, _, digest in read if is_head]
    return [LogRow(*row) for is_head, *row in read if not is_head], (heads or [EMPTY])[0]


def broken_row(rows: Sequence[LogRow], head: Head) -> int | None:
    """Return the number of the first row that does not match its hash, or is missing; None if all of the log is intact."""
    digest = EMPTY.digest
    for expected, row in enumerate(rows, start=1):
        if row.number != expected or row.digest != chained_digest(digest, row.body):
            return expected
        digest = row.digest
    # Without rows at its end the chain still matches, but the head shows that they existed.
    return None if head == Head(len(rows), digest) else min(len(rows), head.number) + 1


def append_rows(connection: Connection, head: Head, bodies: Sequence[str]) -> bool:
    """Append rows to the log that ends with `head`; return False, with nothing written, where it has grown since.

    The caller's transaction makes all of it visible at once. Waits for another transition that has not ended yet.
    """
    rows, digest = list[LogRow](), head.digest
    for number, body in enumerate(bodies, start=head.number + 1):
        digest = chained_digest(digest, body)
        rows.append(LogRow(number, body, digest))
    if not _replace_head(connection, head, Head(rows[-1].number, digest)):
        return False
    connection.execute(insert(schema.registry_log), [row._asdict() for row in rows])
    return True


def chained_digest(former: str, body: str) -> str:
    """Return the digest of a row: the SHA-256 of the digest of the row before it, and of its own body."""
    return hashlib.sha256(f"{former}\n{body}".encode()).hexdigest()


def require_intact(rows: Sequence[LogRow], head: Head) -> None:
    """Raise StoreError, with the number of the row, for a log that was changed."""
    number = broken_row(rows, head)
    if number is not None:
        raise StoreError(f"row {number} of the registry log does not match its hash: restore the store from a backup")


def _replace_head(connection: Connection, former: Head, head: Head) -> bool:
    table = schema.registry_head
    # The row is written first, so that SQLite begins with a write lock, which it waits for: a lock that follows a read fails.
    connection.execute(insert_or_ignore(connection.dialect, table), {"id": 1, **EMPTY._asdict()})
    unchanged = (table.c.number == former.number, table.c.digest == former.digest)
    return connection.execute(update(table).where(*unchanged).values(**head._asdict())).rowcount == 1
