"""Writes the rows of blocks as parts, where they were made, and enters such parts in the manifest.

Few rows are written soon, so that they are safe, and written again in larger parts with later ones, which replace the small ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.store import schema
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.part_moves import PART_BYTES
from pytest_crucible.store.parts import (
    OF_BLOCKS,
    PART_ROWS,
    Part,
    ResultsFolder,
    manifest_rows,
    part_schema,
    part_tables,
    write_part,
)
from pytest_crucible.store.row_batches import has_odd_columns
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from pytest_crucible.store.runs import RunStore

JOINED = 8
"""Writes of one size that the next one joins: a row is written three or four times until its part is full."""


@dataclass(frozen=True)
class Delivery:
    """Parts that are written and not entered yet."""

    parts: Sequence[Part]
    replaced: Sequence[str]
    """The paths of earlier parts whose rows are in these."""
    rest: Sequence[pa.RecordBatch]
    """Rows that belong into the run store."""


@dataclass(frozen=True)
class _Written:
    """Rows that are in parts, and in memory until they are joined with others."""

    times_joined: int
    paths: Sequence[str]
    tables: Mapping[str, pa.Table]


class PartWriter:
    """Writes rows of one run, and joins parts that it has written before."""

    def __init__(self, results: ResultsFolder, run: str) -> None:
        self._results, self._run = results, run
        self._written: list[_Written] = []

    def write(self, batches: Iterable[pa.RecordBatch], *, is_last: bool = False) -> Delivery:
        """Write batches of `encode_rows`; with `is_last`, join all parts that are not full. Raises StoreError.

        A part exists when `enter_parts` has entered it. Units must not be stored already: parts have no keys.
        """
        own, rest = _split(batches)
        place, times_joined = self._find_joined(own, is_last=is_last)
        joined = self._written[place:]
        if not own and len(joined) < 2:
            return Delivery([], [], rest)
        tables = _join([*(written.tables for written in joined), own])
        parts = [
            write_part(self._results, self._run, part_tables()[name], rows, prefix=OF_BLOCKS)
            for name, rows in tables.items()
        ]
        # Only now: after an error, the earlier parts are as they were.
        del self._written[place:]
        if not _is_full([tables]):
            self._written.append(_Written(times_joined, [part.path for part in parts], tables))
        return Delivery(parts, [path for written in joined for path in written.paths], rest)

    def forget(self) -> None:
        """Leave all parts as they are: the last ones were not entered, or their run is over."""
        self._written.clear()

    def _find_joined(self, own: Mapping[str, pa.Table], *, is_last: bool) -> tuple[int, int]:
        """Return the place of the first earlier write that is joined with new rows, and how often these are joined then."""
        if is_last or _is_full([*(written.tables for written in self._written), own]):
            return 0, 0
        place, times_joined = len(self._written), 0
        while place >= JOINED and all(
            written.times_joined == times_joined for written in self._written[place - JOINED : place]
        ):
            place, times_joined = place - JOINED, times_joined + 1
        return place, times_joined


def _is_full(writes: Sequence[Mapping[str, pa.Table]]) -> bool:
    """Return whether rows are as many as a part has, or as many bytes."""
    joined = [rows for tables in writes for rows in tables.items()]
    most = max((sum(len(rows) for other, rows in joined if other == name) for name, _ in joined), default=0)
    return most >= PART_ROWS or sum(rows.nbytes for _, rows in joined) >= PART_BYTES


def _join(writes: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    import pyarrow as pa

    names = dict.fromkeys(name for tables in writes for name in tables)
    return {name: pa.concat_tables([tables[name] for tables in writes if name in tables]) for name in names}


def _split(batches: Iterable[pa.RecordBatch]) -> tuple[dict[str, pa.Table], list[pa.RecordBatch]]:
    """Return the rows by table, with all columns, and the batches that belong into the run store.

    These are rows that replace others, of tables without parts, or with values that Parquet's types cannot hold.
    """
    import pyarrow as pa

    groups: dict[str, list[pa.Table]] = {}
    rest: list[pa.RecordBatch] = []
    for batch in batches:
        facts = batch.schema.metadata
        name = facts[b"table"].decode()
        if name in part_tables() and facts[b"overwrite"] == b"0" and not has_odd_columns(batch.schema):
            groups.setdefault(name, []).append(_complete(part_tables()[name], batch))
        else:
            rest.append(batch)
    return {name: pa.concat_tables(rows) for name, rows in groups.items()}, rest


def _complete(table: Table, batch: pa.RecordBatch) -> pa.Table:
    """Return the rows of a batch with all columns, as the database would have them: NULL for a number that is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {}
    for field in part_schema(table):
        if field.name not in batch.schema.names:
            columns[field.name] = pa.nulls(batch.num_rows, field.type)
        else:
            column = batch.column(field.name)
            is_number = pa.types.is_floating(field.type)
            columns[field.name] = pc.if_else(pc.is_nan(column), None, column) if is_number else column
    if table is schema.events and columns["id"].null_count:
        # They order the events of a run. Microseconds lie above all numbers that a database assigns.
        first = time.time_ns() // 1_000
        columns["id"] = pa.array(range(first, first + batch.num_rows), pa.int64())
    return pa.Table.from_pydict(columns, schema=part_schema(table))


def enter_parts(store: RunStore, parts: Sequence[Part], replaced: Sequence[str], others: Iterable[Rows] = ()) -> None:
    """Enter parts, instead of those with the `replaced` paths, and other rows, in one transaction. Raises StoreError."""
    with store.begin() as connection:
        if replaced:
            with connection.changing(PARTS, "path IN (:paths)", paths=replaced):
                connection.execute(f"DELETE FROM {PARTS.name} WHERE path IN (:paths)", paths=replaced)
        connection.insert(PARTS, manifest_rows(parts))
        for table, overwrite, rows in others:
            connection.insert(table, rows, over=overwrite)
