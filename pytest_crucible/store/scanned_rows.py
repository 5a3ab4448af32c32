"""Rows of a run with Parquet parts, in ranges of positions, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
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
        self._scans = {
            table.name: _Scan(scan_rows(store, run, table, (*_UNIT, *columns), positions=positions), read)
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
        for scan in self._scans.values():
            scan.ranges.close()

    def _read_values(self, rows: pa.Table) -> Columns:
        metrics = rows["metric"].combine_chunks()
        numbers = [self.metrics.setdefault(name, len(self.metrics)) for name in metrics.dictionary.to_pylist()]
        codes = np.array(numbers, dtype=np.int64)[metrics.indices.to_numpy()]
        return {"metric": codes, "value": rows["value"].to_numpy()}


def _read_states(rows: pa.Table) -> Columns:
    states = np.where(rows["failure"].is_null().to_numpy(), ANSWERED, FAILED)
    return {"state": np.where(rows["skipped"].to_numpy(), SKIPPED, states)}


def _read_texts(rows: pa.Table) -> Columns:
    return {name: np.array(rows[name].to_pylist(), dtype=object) for name in ("metric", "reason", "detail")}


class _Scan:
    """The rows of one table, range by range."""

    def __init__(self, ranges: Iterator[tuple[int, Any]], read: Callable[[Any], Columns]) -> None:
        self.ranges = cast("Generator[tuple[int, Any], None, None]", ranges)
        self._read = read
        self._following: tuple[int, Any] | None = None

    def pop_until(self, stop: int) -> Iterator[Columns]:
        while (following := self._following or next(self.ranges, None)) is not None:
            self._following = following
            last, rows = following
            if last >= stop:
                return
            self._following = None
            yield {**{name: rows[name].to_numpy() for name in _UNIT}, **self._read(rows)}
