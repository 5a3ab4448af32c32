"""Outcomes of an arm on consecutive samples, read from a database."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Lost
from pytest_crucible.store.database import Connection
from pytest_crucible.store.scanned_rows import ANSWERED, FAILED, SKIPPED
from pytest_crucible.store.unit_ranges import UnitColumns, UnitRange

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
