"""Rows of a run with Parquet parts, in ranges of positions, as arrays: a merge of parts, each sorted, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.part_reader import RUN_ARMS, load_parts
from pytest_crucible.store.parts import Part, ResultsFolder, part_schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_columns import arrow_chunks
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
if TYPE_CHECKING:
    import pyarrow as pa


Columns = Mapping[str, npt.NDArray[Any]]
"""One entry a row; among them `arm`, `position` and `epoch`."""
_UNIT = ("arm", "position", "epoch")
ANSWERED, FAILED, SKIPPED = 0, 1, 2
"""The state of a reply."""


class ScannedRows:
    """The replies, observations and losses of a run: each is scanned once, in the order of positions."""

    def __init__(self, store: RunStore, run: str, positions: int, metrics: Iterable[str]) -> None:
        """`positions` are read at a time; those of `metrics` are numbered in their order, before all others."""
        self.metrics = {name: number for number, name in enumerate(metrics)}
        """A number for each metric, which is in the column `metric`."""
        self._decoder = ThreadPoolExecutor(1)
        self._scans = {
            table.name: _Scan(
                scan_rows(store, run, table, (*_UNIT, *columns), positions=positions), read, self._decoder
            )
            for table, columns, read in (
                (schema.replies, ("failure", "skipped"), _read_states),
                (schema.observations, ("metric", "value"), self._read_values),
                (schema.lost, ("metric", "reason", "detail"), _read_texts),
            )
        }

    def pop_until(self, table: str, stop: int) -> Iterator[Columns]:
        """Yield the rows of a table below a multiple of the positions, without those that were returned before."""
        return self._scans[table].pop_until(stop)

    def close(self) -> None:
        """Return the connections of the scans, which may not have ended."""
        with self._decoder:
            for scan in self._scans.values():
                # A connection to SQLite is closed by the thread that opened it.
                self._decoder.submit(scan.ranges.close).result()

    def _read_values(self, rows: pa.RecordBatch) -> Columns:
        metrics = rows.column("metric")
        numbers = [self.metrics.setdefault(name, len(self.metrics)) for name in metrics.dictionary.to_pylist()]
        codes = np.array(numbers, dtype=np.int64)[metrics.indices.to_numpy()]
        return {"metric": codes, "value": _to_numpy(rows.column("value"))}


def _read_states(rows: pa.RecordBatch) -> Columns:
    failures, skipped = rows.column("failure"), _to_numpy(rows.column("skipped"))
    states = np.full(rows.num_rows, ANSWERED)
    if failures.null_count < rows.num_rows:
        states[_to_numpy(failures.is_valid())] = FAILED
    states[skipped] = SKIPPED
    return {"state": states}


def _read_texts(rows: pa.RecordBatch) -> Columns:
    return {name: np.array(rows.column(name).to_pylist(), dtype=object) for name in ("metric", "reason", "detail")}


def _to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


class _Scan:
    """The rows of one table, range by range; a thread decodes the range that follows."""

    def __init__(
        self, ranges: Iterator[tuple[int, Any]], read: Callable[[Any], Columns], decoder: ThreadPoolExecutor
    ) -> None:
        self.ranges = cast("Generator[tuple[int, Any], None, None]", ranges)
        self._read, self._decoder = read, decoder
        self._following = decoder.submit(next, self.ranges, None)

    def pop_until(self, stop: int) -> Iterator[Columns]:
        while (following := self._following.result()) is not None:
            last, rows = following
            if last >= stop:
                return
            self._following = self._decoder.submit(next, self.ranges, None)
            # Without a copy of the rows as a whole.
            for batch in rows.to_batches():
                yield {**{name: _to_numpy(batch.column(name)) for name in _UNIT}, **self._read(batch)}


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


def _merge(
    own: _Source, parts: Sequence[Part], names: Sequence[str], columns: list[str], step: int
) -> Iterator[tuple[int, pa.Table]]:
    import pyarrow as pa

    # Each is opened when its first position is reached.
    waiting = deque(sorted(parts, key=_first_position))
    folders = {root: ResultsFolder(root) for root in {part.root for part in parts}}
    sources = [own]
    while True:
        sources = [source for source in sources if not source.is_empty]
        starts = [source.next_position for source in sources] + ([_first_position(waiting[0])] if waiting else [])
        if not starts:
            return
        bound = min(starts) // step * step + step - 1
        while waiting and _first_position(waiting[0]) <= bound:
            part = waiting.popleft()
            rows = max(SOURCE_ROWS, MOST_SOURCE_ROWS // (1 + len(sources)))
            sources.append(_Source(_part_chunks(folders[part.root], part, names, rows)))
        gathered = [table for source in sources for table in source.pop_until(bound)]
        yield bound, pa.concat_tables(gathered).unify_dictionaries().select(columns)


def _positions_at_a_time(parts: Sequence[Part], rows: int) -> int:
    """Return the number of positions that have about so many rows: units are spread evenly over them."""
    if not parts:
        return rows
    span = max(part.last_position or 0 for part in parts) - min(map(_first_position, parts)) + 1
    return max(1, rows * span // sum(part.row_count for part in parts))


def _first_position(part: Part) -> int:
    return part.first_position or 0


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
