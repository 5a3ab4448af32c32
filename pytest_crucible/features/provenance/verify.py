"""Verifies a stored run: compares its rows, and the texts that they refer to, with its seals."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.features.provenance.canonical_rows import row_hashes
from pytest_crucible.features.provenance.run_rows import ARMS, rows_of_run, run_owners, run_root, sealed_tables
from pytest_crucible.features.provenance.sealed_rows import (
    BrokenSeal,
    Edit,
    EditedRow,
    SealedRows,
    TableRows,
    load_seals,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.forms import expand_form, load_bodies, texts_apart
from pytest_crucible.store.part_reader import PartReader, load_parts
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import REFERENCES, form_key, text_id, unpack_form

_PART = 2_000
"""Rows that are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of comparing a run with its seals."""

    run: str
    rows: int
    commits: int
    processes: int
    edits: Sequence[EditedRow]
    """Rows that are not as they were written, in the order of tables and keys."""
    broken: Sequence[BrokenSeal]
    root: str

    @property
    def is_intact(self) -> bool:
        return not (self.edits or self.broken)


def verify_run(store: RunStore, run: str) -> Verification | None:
    """Return what verifying a run found; None for a run that was stored without seals. Raises StoreError."""
    # Another process may be writing.
    with store.connect() as connection, connection.snapshot(), _without_blocks(connection):
        reader = _Reader(connection, run)
        sealed = load_seals(connection, reader.owners)
        of_run = [stored for owner, _, stored in sealed.chains if owner.kind == schema.runs.name]
        if not _begins_sealed(sealed):
            return None
        return Verification(
            run=run,
            edits=[*reader.edits(sealed), *reader.edited_files(), *reader.edited_bodies()],
            rows=reader.rows,
            commits=sum(map(len, of_run)),
            processes=len(of_run),
            broken=list(sealed.broken_seals()),
            root=run_root(connection, run),
        )


@contextlib.contextmanager
def _without_blocks(connection: Connection) -> Iterator[None]:
    """Leave out rows in parts that workers have written: their files are sealed as a whole."""
    if connection.parts is None:
        yield
        return
    connection.parts = reader = PartReader(leaves_out_blocks=True)
    with contextlib.closing(reader):
        yield


def _begins_sealed(sealed: SealedRows) -> bool:
    """Return whether the run was entered by a process that seals: one of an earlier format may have been resumed since."""
    first = [stored[0].number for owner, _, stored in sealed.chains if owner.kind == schema.runs.name and stored]
    return schema.runs.name in sealed.parts or any(number > 1 for number in first)


class _Reader:
    """Reads all rows of a run."""

    def __init__(self, connection: Connection, run: str) -> None:
        self._connection, self._run = connection, run
        self.owners = run_owners(connection, run)
        self.rows = 0
        """How many rows were compared."""

    def edits(self, sealed: SealedRows) -> Iterator[EditedRow]:
        """Yield the rows that are not as they were written, table by table. Raises StoreError for a table of another version."""
        tables = sealed_tables(self._connection)
        if unknown := sealed.parts.keys() - {table.name for table in tables}:
            raise StoreError(
                f"run {self._run} has rows in the table {min(unknown)!r}, which this version does not know: "
                "verify it with the version that stored it"
            )
        for table in tables:
            yield from sorted(self._edits_of(table, TableRows(sealed, table.name)), key=_in_order)

    def _edits_of(self, table: Table, expected: TableRows) -> Sequence[EditedRow]:
        for rows in rows_of_run(self._connection, table, self.owners, _PART):
            self.rows += len(rows)
            columns = dict(zip(table.names, zip(*rows, strict=True), strict=True))
            keys = zip(*(columns[name] for name in table.key), strict=True)
            expected.match(keys, row_hashes(table, columns, len(rows)))
        expected.add_missing()
        return expected.edits

    def edited_files(self) -> Iterator[EditedRow]:
        """Yield the parts whose file is not the one that a worker has written."""
        parts = [part for part in load_parts(self._connection, frozenset([self._run])) if part.is_of_blocks]
        for part in parts:
            digest = ResultsFolder(part.root).digest(part.path)
            self.rows += part.row_count
            if digest != part.sha256:
                key = self._connection.scalar("SELECT id FROM parts WHERE path = :path", path=part.path)
                yield EditedRow("parts", (key,), "changed" if digest else "removed")

    def edited_bodies(self) -> Iterator[EditedRow]:
        """Yield the rows whose long text, reasoning or messages are not those that their key is the hash of."""
        for table in (schema.replies, schema.calls):
            for column in (name for name in (*REFERENCES, *schema.FORM_COLUMNS) if name in table.names):
                yield from self._edited_bodies(table, column)

    def _edited_bodies(self, table: Table, column: str) -> Iterator[EditedRow]:
        of, edited = (
            (schema.messages, self._edited_forms) if column in schema.FORM_COLUMNS else (schema.texts, _edited_texts)
        )
        used = f"SELECT {column} FROM {table.name} WHERE arm IN ({ARMS}) AND {column} IS NOT NULL"
        edits: dict[Any, Edit] = {}
        with self._connection.stream(f"SELECT id, body FROM {of.name} WHERE id IN ({used})", run=self._run) as cursor:
            while rows := cursor.fetchmany(_PART):
                edits |= dict.fromkeys(edited(rows), "changed")
        # Calls that are stored without texts have their hashes alone.
        stored = f"{used} AND has_texts IS NULL" if table is schema.calls else used
        missing = f"SELECT DISTINCT {column} FROM ({stored}) AS used WHERE {column} NOT IN (SELECT id FROM {of.name})"
        edits |= dict.fromkeys(self._connection.scalars(missing, run=self._run), "removed")
        where = f"{column} = :key AND arm IN ({ARMS})"
        query = f"SELECT {', '.join(table.key)} FROM {table.name} WHERE {where} ORDER BY {', '.join(table.key)}"
        for key, edit in edits.items():
            yield EditedRow(of.name, (table.name, *self._connection.first(query, key=key, run=self._run)), edit)

    def _edited_forms(self, rows: Sequence[tuple[int, Any]]) -> list[int]:
        """Return the keys of forms that are not those which they are the hashes of, with the texts that stand apart from them."""
        bodies = {key: _read_body(body) for key, body in rows}
        apart = {key for body in bodies.values() for key in texts_apart(body)}
        texts = {key: _read_body(body) for key, body in load_bodies(self._connection.execute, apart, {})}
        return [
            key
            for key, body in bodies.items()
            if not texts.keys() >= {*texts_apart(body)} or form_key(expand_form(body, texts)) != key
        ]


def _in_order(edit: EditedRow) -> list[tuple[str, Any]]:
    # An edit may have put a text where a number was.
    return [(type(value).__name__, value) for value in edit.key]


def _read_body(body: Any) -> str:
    """Return a form as it is stored; an empty text for what is none."""
    try:
        return unpack_form(body)
    except (zlib.error, UnicodeDecodeError, TypeError):
        return ""


def _edited_texts(rows: Sequence[tuple[bytes, Any]]) -> list[bytes]:
    return [key for key, body in rows if not isinstance(body, str) or text_id(body) != key]
