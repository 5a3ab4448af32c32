"""Outcomes of arms on consecutive samples, read from a database or from scanned rows of Parquet parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Lost
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection
from pytest_crucible.store.scanned_rows import ANSWERED, FAILED, SKIPPED, Columns, ScannedRows
from pytest_crucible.store.unit_ranges import UnitColumns, UnitRange


class _Cells(NamedTuple):
    """Numbers of one arm: metrics x units."""

    values: npt.NDArray[np.float64]
    there: npt.NDArray[np.bool_]

    def at(self, place: int) -> UnitColumns:
        units = np.flatnonzero(self.there[place])
        return units, self.values[place] if units.size == self.values.shape[1] else self.values[place, units]


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """Rows of Parquet parts."""

    range: UnitRange
    states: _Cells
    values: _Cells
    losses: Sequence[Columns]
    metrics: Mapping[str, int]

    def replies(self) -> UnitColumns:
        return self.states.at(0)

    def scores(self, metrics: Sequence[str]) -> dict[str, UnitColumns]:
        nothing = np.array([], dtype=np.int64), np.array([])
        return {name: self.values.at(self.metrics[name]) if name in self.metrics else nothing for name in metrics}

    def lost(self, number: int) -> list[Lost]:
        return [
            Lost(self.range.unit(number, position, epoch), metric or None, reason, detail or "")
            for rows in self.losses
            for arm, position, epoch, metric, reason, detail in sorted(
                zip(*(rows[name] for name in _LOST), strict=True)
            )
            if arm == self.range.arm
        ]


_LOST = ("arm", "position", "epoch", "metric", "reason", "detail")


def read_ranges(scanned: ScannedRows, stop: int, ranges: Sequence[UnitRange], metrics: int) -> dict[int, ScannedRange]:
    """Return the outcomes of each arm by its key; `ranges` are of the same samples, and the scan's first metrics are theirs."""
    if not ranges:
        return {}
    states = _fill(scanned.pop_until("replies", stop), "state", ranges, 1)
    values = _fill(scanned.pop_until("observations", stop), "value", ranges, metrics)
    losses = [*scanned.pop_until("lost", stop)]
    return {
        part.arm: ScannedRange(part, of_replies, of_scores, losses, scanned.metrics)
        for part, of_replies, of_scores in zip(ranges, states, values, strict=True)
    }


def _fill(chunks: Iterable[Columns], column: str, ranges: Sequence[UnitRange], metrics: int) -> list[_Cells]:
    """Return the numbers of each arm. One write a row takes a third of the time of a search for the rows of each metric."""
    counts = [(part.stop - part.start) * part.size for part in ranges]
    starts = [0, *accumulate(count * metrics for count in counts)]
    values, there = np.full(starts[-1], np.nan), np.zeros(starts[-1], dtype=bool)
    for chunk in chunks:
        rows = _of_arms(chunk, [part.arm for part in ranges])
        _check_places(rows, ranges)
        cells = _number_cells(rows, ranges, counts, starts, metrics)
        values[cells], there[cells] = rows[column], True
    return [
        _Cells(values[start:stop].reshape(metrics, count), there[start:stop].reshape(metrics, count))
        for start, stop, count in zip(starts[:-1], starts[1:], counts, strict=True)
    ]


def _of_arms(rows: Columns, arms: Sequence[int]) -> Columns:
    """Return the rows of some arms: a run may have other experiments."""
    low, high, of_rows = min(arms), max(arms), rows["arm"]
    if len(arms) == high - low + 1 and (not of_rows.size or low <= of_rows.min() <= of_rows.max() <= high):
        return rows
    inside = np.isin(of_rows, arms)
    return {name: values[inside] for name, values in rows.items()}


def _check_places(rows: Columns, ranges: Sequence[UnitRange]) -> None:
    """Raise StoreError for a row of no planned reply: its number would be that of another one."""
    positions, epochs = rows["position"], rows["epoch"]
    own = {part.arm: len(part.places) for part in ranges}
    is_beyond = positions.max(initial=0) >= ranges[0].stop or epochs.min(initial=0) < 0
    if epochs.max(initial=0) >= min(own.values()):
        is_beyond |= any(epochs[rows["arm"] == arm].max(initial=0) >= most for arm, most in own.items())
    if is_beyond:
        raise StoreError("the Parquet parts of this run have replies that its plan does not have: restore the files")


def _number_cells(
    rows: Columns, ranges: Sequence[UnitRange], counts: Sequence[int], starts: Sequence[int], metrics: int
) -> npt.NDArray[np.int64]:
    low, high = min(part.arm for part in ranges), max(part.arm for part in ranges)
    first = np.zeros((high - low + 1, metrics), dtype=np.int64)
    sizes = np.zeros(high - low + 1, dtype=np.int64)
    for part, count, start in zip(ranges, counts, starts, strict=False):
        sizes[part.arm - low] = part.size
        first[part.arm - low] = start + np.arange(metrics) * count + part.units(0, 0)
    arms: Any = rows["arm"] - low
    size: Any = sizes[arms] if len({part.size for part in ranges}) > 1 else ranges[0].size
    arms *= metrics
    if metrics > 1:
        arms += rows["metric"]
    cells = first.ravel()[arms]
    cells += rows["epoch"]
    # A multiplication by 1 would take as long as any.
    cells += rows["position"] if isinstance(size, int) and size == 1 else rows["position"] * size
    return np.asarray(cells)


_IN_RANGE = "arm = :arm AND position >= :start AND position < :stop"


@dataclass(frozen=True, slots=True)
class QueriedRange:
    """Rows of a database."""

    range: UnitRange
    connection: Connection

    def replies(self) -> UnitColumns:
        part = self.range
        counts = "SELECT COUNT(*), SUM(CASE WHEN skipped OR failure IS NOT NULL THEN 1 ELSE 0 END) FROM replies"
        count, others = self.connection.first(f"{counts} WHERE {_IN_RANGE}", **self._values)
        if count == (part.stop - part.start) * len(part.places) and not others:
            # The database counts them in a fifth of the time in which it returns them.
            return self._all_units(), np.full(count, float(ANSWERED))
        state = f"CASE WHEN skipped THEN {SKIPPED} WHEN failure IS NULL THEN {ANSWERED} ELSE {FAILED} END"
        units, states = self._read("replies", state).T
        return units.astype(np.int64), states

    def scores(self, metrics: Sequence[str]) -> dict[str, UnitColumns]:
        if (complete := self._all_scores(metrics)) is not None:
            return complete
        names = {f"metric_{place}": name for place, name in enumerate(metrics)}
        cases = " ".join(f"WHEN :{name} THEN {place}" for place, name in enumerate(names)) or "WHEN '' THEN 0"
        # The only text that a float is made of: SQL has no NaN among its numbers.
        columns = f"COALESCE(value, 'NaN'), CASE metric {cases} END"
        units, values, places = self._read("observations", columns, "AND label IS NULL", **names).T
        chosen = {name: places == place for place, name in enumerate(metrics)}
        return {name: (units[rows].astype(np.int64), values[rows]) for name, rows in chosen.items()}

    def lost(self, number: int) -> list[Lost]:
        query = f"SELECT position, epoch, metric, reason, detail FROM lost WHERE {_IN_RANGE} ORDER BY position, epoch"
        return [
            Lost(self.range.unit(number, position, epoch), metric or None, reason, detail or "")
            for position, epoch, metric, reason, detail in self.connection.execute(query, **self._values)
        ]

    def _all_scores(self, metrics: Sequence[str]) -> dict[str, UnitColumns] | None:
        """Return the scores where each metric has one of each unit: their values alone take two thirds of the time."""
        counts = "SELECT COUNT(*), SUM(CASE WHEN label IS NULL AND epoch < :own THEN 1 ELSE 0 END) FROM observations"
        count, plain = self.connection.first(f"{counts} WHERE {_IN_RANGE}", own=len(self.range.places), **self._values)
        units = self._all_units()
        if not count or not count == plain == units.size * len(metrics):
            return None
        query = f"SELECT metric FROM observations WHERE {_IN_RANGE} ORDER BY position, epoch, metric LIMIT :count"
        # In the order of the database, which has no metric twice.
        names = list(self.connection.scalars(query, count=len(metrics), **self._values))
        query = f"SELECT COALESCE(value, 'NaN') FROM observations WHERE {_IN_RANGE} ORDER BY position, epoch, metric"
        values = np.fromiter(chain.from_iterable(self.connection.execute(query, **self._values)), np.float64, count)
        return {name: (units, column) for name, column in zip(names, values.reshape(-1, len(names)).T, strict=True)}

    def _all_units(self) -> npt.NDArray[np.int64]:
        part = self.range
        starts = np.arange(part.stop - part.start, dtype=np.int64) * part.size
        return np.asarray(np.add.outer(starts, np.array(part.places)).ravel())

    def _read(self, table: str, columns: str, condition: str = "", **values: Any) -> npt.NDArray[np.float64]:
        """Return the units of rows and some columns of numbers: rows x columns."""
        unit = f"(position - :start) * {self.range.size:d} + {self.range.places[0]:d} + epoch"
        query = f"SELECT {unit}, {columns} FROM {table} WHERE {_IN_RANGE} {condition} ORDER BY position, epoch"
        rows = self.connection.execute(query, **self._values, **values)
        # Without a list of rows, which the garbage collector would visit. Units are whole numbers that a float holds.
        numbers = np.fromiter(chain.from_iterable(rows), np.float64)
        return numbers.reshape(-1, len(rows.description))

    @property
    def _values(self) -> dict[str, Any]:
        return {"arm": self.range.arm, "start": self.range.start, "stop": self.range.stop}
