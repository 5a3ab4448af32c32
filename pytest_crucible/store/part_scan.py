"""Scans the rows of a run in the order of their samples, in bounded memory: a merge of its parts, each sorted by position."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_crucible.store.database import Connection
from pytest_crucible.store.part_reader import RUN_ARMS, load_parts
from pytest_crucible.store.parts import Part, ResultsFolder, part_schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_columns import arrow_chunks
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

SCAN_ROWS = 1 << 17
"""Rows that are yielded together, about."""
SOURCE_ROWS = 1 << 14
"""Rows of a part that are in memory at a time: a run may have hundreds of parts at one position."""
MOST_SOURCE_ROWS = 1 << 16
"""Likewise of the only part there, and of few parts together: fewer chunks take less time."""


def scan_rows(
    store: RunStore,
    run: str,
    table: Table,
    columns: Sequence[str],
    *,
    rows: int = SCAN_ROWS,
    positions: int | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a table about units in ranges of positions, each with its last position. Raises StoreError.

    All rows of a sample are in one range, which has about `rows` rows, more where a sample has, or so many `positions`, and then
    ends where a multiple of them does; they are in no order there. Rows of the parts and of the run store are merged. Texts,
    such as metrics, are dictionary-encoded.
    """
    names = tuple(dict.fromkeys((*columns, "position")))
    with store.connect() as connection:
        parts = [part for part in load_parts(connection, frozenset([run])) if part.table is table and part.row_count]
        own = _Source(_stored_chunks(connection, table, names, run))
        yield from _merge(own, parts, names, list(columns), positions or _positions_at_a_time(parts, rows))


class _Source:
    """Chunks in the order of positions, of which those up to a position are taken."""

    def __init__(self, chunks: Iterable[pa.Table]) -> None:
        self._chunks = iter(chunks)
        self._rest: pa.Table | None = next(self._chunks, None)

    @property
    def is_empty(self) -> bool:
        return self._rest is None

    @property
    def next_position(self) -> int:
        """The lowest position that is left."""
        assert self._rest is not None
        return int(self._rest["position"][0].as_py())

    def pop_until(self, position: int) -> Iterator[pa.Table]:
        """Yield the rows up to a position, this one included."""
        while self._rest is not None:
            places = self._rest["position"].to_numpy()
            count = int(places.searchsorted(position, side="right"))
            if count:
                yield self._rest.slice(0, count)
            if count < len(places):
                self._rest = self._rest.slice(count)
                return
            self._rest = next(self._chunks, None)


class _Waiting(NamedTuple):
    """A part that is opened when its first position is reached."""

    first: int
    number: int
    part: Part


def _merge(
    own: _Source, parts: Sequence[Part], names: Sequence[str], columns: list[str], step: int
) -> Iterator[tuple[int, pa.Table]]:
    import pyarrow as pa

    waiting = [_Waiting(part.first_position or 0, k, part) for k, part in enumerate(parts)]
    heapq.heapify(waiting)
    folders = {root: ResultsFolder(root) for root in {part.root for part in parts}}
    sources = [own]
    while True:
        sources = [source for source in sources if not source.is_empty]
        starts = [source.next_position for source in sources] + [each.first for each in waiting[:1]]
        if not starts:
            return
        bound = min(starts) // step * step + step - 1
        while waiting and waiting[0].first <= bound:
            part = heapq.heappop(waiting).part
            rows = max(SOURCE_ROWS, MOST_SOURCE_ROWS // (1 + len(sources)))
            sources.append(_Source(_part_chunks(folders[part.root], part, names, rows)))
        gathered = [table for source in sources for table in source.pop_until(bound)]
        yield bound, pa.concat_tables(gathered).unify_dictionaries().select(columns)


def _positions_at_a_time(parts: Sequence[Part], rows: int) -> int:
    """Return the number of positions that have about so many rows: units are spread evenly over them."""
    if not parts:
        return rows
    ends = [(part.first_position or 0, part.last_position or 0) for part in parts]
    span = max(last for _, last in ends) - min(first for first, _ in ends) + 1
    return max(1, rows * span // sum(part.row_count for part in parts))


def _part_chunks(results: ResultsFolder, part: Part, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
    import pyarrow as pa

    for batch in results.batches(part, rows, names):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _stored_chunks(connection: Connection, table: Table, names: Sequence[str], run: str) -> Iterator[pa.Table]:
    query = f"SELECT {', '.join(names)} FROM {table.name} WHERE arm IN ({RUN_ARMS}) ORDER BY position"
    for chunk in arrow_chunks(table, names, connection.execute_stored(query, runs=[run])):
        texts = [k for k, name in enumerate(names) if _is_text(table, name)]
        for k in texts:
            chunk = chunk.set_column(k, names[k], chunk.column(k).dictionary_encode())
        yield chunk


def _is_text(table: Table, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(part_schema(table).field(name).type))
