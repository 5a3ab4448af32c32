"""Rows of a run with Parquet parts, in ranges of positions, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from pytest_crucible.store import schema
from pytest_crucible.store.part_scan import scan_rows
from pytest_crucible.store.runs import RunStore

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
