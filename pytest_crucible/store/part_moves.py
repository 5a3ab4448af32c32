"""Moves rows of a run from the run store into Parquet parts, and back to be changed; removes parts that nothing refers to."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.part_reader import load_parts, own_rows_condition
from pytest_crucible.store.parts import (
    PART_ROWS,
    Part,
    ResultsFolder,
    manifest_rows,
    part_tables,
    write_part,
)
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_columns import CHUNK_ROWS, OddValueError, arrow_chunks
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from pytest_crucible.store.runs import RunStore


PART_BYTES = 1 << 28
"""Bytes in memory after which a part is closed before it has all its rows: replies may be long."""
_SHARED = (schema.texts, schema.messages)
"""Tables whose rows other runs may refer to: they are copied, and `crucible gc` removes those that nothing refers to."""


def move_rows(store: RunStore, results: ResultsFolder, run: str) -> list[Part]:
    """Move all rows of a run about units and events into parts, in one transaction. Return the parts. Raises StoreError."""
    parts: list[Part] = []
    with store.begin() as connection:
        if not connection.is_sqlite:
            # Rows that another process commits meanwhile are not removed: they are not in a part.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # Shared rows first: what refers to them is removed then.
        tables = sorted(part_tables().values(), key=lambda table: table not in _SHARED)
        for table in tables:
            parts += _move_table(connection, results, run, table)
        connection.insert(PARTS, manifest_rows(parts))
    return parts


def _move_table(connection: Connection, results: ResultsFolder, run: str, table: Table) -> list[Part]:
    condition = own_rows_condition(table)
    query = f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {condition}"
    parts: list[Part] = []
    try:
        for rows in _gather(arrow_chunks(table, table.names, connection.execute_stored(query, runs=[run]))):
            parts.append(write_part(results, run, table, rows))
    except OddValueError:
        # A value that Parquet's types cannot hold: the table stays in the run store, where it is read beside parts.
        for part in parts:
            results.remove(part.path)
        return []
    if parts and table not in _SHARED:
        connection.execute_stored(f"DELETE FROM {table.name} WHERE {condition}", runs=[run])
    return parts


def _gather(chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables with the rows of parts."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for chunk in chunks:
        waiting.append(chunk)
        if len(waiting) * CHUNK_ROWS >= PART_ROWS or sum(table.nbytes for table in waiting) >= PART_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def restore_rows(connection: Connection, run: str) -> None:
    """Enter the rows of a run's parts in the run store again, instead of the parts. Raises StoreError."""
    is_older = schema.has_whole_forms(connection.scalar("SELECT format FROM runs WHERE id = :run", run=run))
    for part in load_parts(connection, frozenset([run])):
        # A whole form replaces an equal one whose texts stand apart: `crucible gc` would remove these with the other runs.
        over = is_older and part.table is schema.messages
        _restore(connection, part, is_sealed=not part.is_of_blocks, over=over)
    with connection.changing(PARTS, "run = :run", run=run):
        connection.execute_stored(f"DELETE FROM {PARTS.name} WHERE run = :run", run=run)


@contextlib.contextmanager
def restored_arm(connection: Connection, arm: int) -> Iterator[None]:
    """Let statements within find the rows of an arm in the run store, although they are in parts. Raises StoreError."""
    query = "SELECT run FROM experiments WHERE id = (SELECT experiment FROM arms WHERE id = :arm)"
    parts = [
        part
        for part in load_parts(connection, frozenset(connection.scalars(query, arm=arm)))
        if part.table is not schema.events
    ]
    of_arm = "WHERE arm = :arm"
    tables = {part.table for part in parts if "arm" in part.table.key}
    own = {
        table: connection.execute_stored(
            f"SELECT {', '.join(table.names)} FROM {table.name} {of_arm}", arm=arm
        ).fetchall()
        for table in tables
    }
    for part in parts:
        _restore(connection, part, arm)
    # Statements read the copies in the run store alone: the parts have the same rows.
    connection.parts = None
    yield
    connection.parts = connection.database.parts
    for table, rows in own.items():
        connection.execute_stored(f"DELETE FROM {table.name} {of_arm}", arm=arm)
        if rows:
            connection.execute_many(_insertion(table), rows)


def _restore(
    connection: Connection, part: Part, arm: int | None = None, *, is_sealed: bool = True, over: bool = False
) -> None:
    """Enter the rows of a part, over those that exist or not. Rows that are sealed already, or copied only, are no change."""
    import pyarrow.compute as pc

    table = part.table
    # Several workers may have written one number of an event.
    names = table.names if is_sealed or table is not schema.events else [name for name in table.names if name != "id"]
    for batch in ResultsFolder(part.root).batches(part, CHUNK_ROWS, names):
        if arm is not None and "arm" in table.key:
            batch = batch.filter(pc.equal(batch.column("arm"), arm))
        columns = {name: batch.column(name).to_pylist() for name in names}
        if not batch.num_rows:
            continue
        if is_sealed and not over:
            connection.execute_many(_insertion(table), list(zip(*columns.values(), strict=True)))
        else:
            connection.insert_columns(table, columns, batch.num_rows, over=over)


def _insertion(table: Table) -> str:
    places = ", ".join("?" * len(table.names))
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({places}) ON CONFLICT DO NOTHING"


ORPHAN_S = 3600.0
"""Seconds after which a file that is not entered belongs to no process that still writes."""


def forget_parts(connection: Connection, run: str) -> list[Part]:
    """Remove the parts of a run from the manifest, and return them: their files go when that is committed."""
    parts = load_parts(connection, frozenset([run]))
    connection.execute(f"DELETE FROM {PARTS.name} WHERE run = :run", run=run)
    return parts


def remove_files(parts: Iterable[Part]) -> int:
    """Remove the files of parts that no manifest has any more; return their bytes. Raises StoreError."""
    freed = 0
    for part in parts:
        ResultsFolder(part.root).remove(part.path)
        freed += part.bytes
    return freed


def remove_unentered(store: RunStore, results: ResultsFolder, run: str) -> None:
    """Remove the files of a run that its manifest does not have, when nothing writes them any more. Raises StoreError."""
    with store.connect() as connection:
        paths = [part.path for part in load_parts(connection, frozenset([run]))]
    results.remove_leftovers(run, paths, math.inf)


def remove_orphans(store: RunStore, removed: Iterable[Part], before: float) -> int:
    """Remove files of the store's runs that are in no manifest and older than `before`; return their bytes.

    Files of other run stores, in the same directory, are left: only folders of this store's runs are looked at.
    """
    with store.connect() as connection:
        entered = load_parts(connection, None)
        runs = {*connection.scalars("SELECT id FROM runs"), *(part.run for part in removed)}
    freed = 0
    for root in {part.root for part in (*entered, *removed)}:
        results = ResultsFolder(root)
        for run in runs:
            names = [part.path for part in entered if part.run == run and part.root == root]
            freed += results.remove_leftovers(run, names, before)
    return freed
