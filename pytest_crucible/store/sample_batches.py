"""Reads a stored experiment in batches of consecutive samples, so that a run larger than memory can be analysed.

Positions of a batch count from its first sample. Columns are arrays: an object for each value would take ten times their memory.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import (
    ArmOutcomes,
    Lost,
    OutcomeCounts,
    Plan,
    PlannedVariant,
    ScoreColumns,
    Unit,
)
from pytest_crucible.store.arm_outlines import read_outline
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.part_reader import load_parts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.scanned_rows import ANSWERED, FAILED, SKIPPED, Columns, ScannedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBatch:
    """Consecutive samples of a dataset, with their outcomes in each arm."""

    start: int
    answers: tuple[ArmOutcomes, ...]
    variants: Mapping[str, tuple[ArmOutcomes, ...]]
    sample_ids: Sequence[str]
    groups: Sequence[str | None]
    expected: Sequence[Any] = ()
    """Empty unless it was asked for."""


class StoredBatches:
    """The outcomes of an experiment in a database, by samples."""

    def __init__(self, store: RunStore, experiment: int, plan: Plan) -> None:
        self._store, self._experiment, self._plan = store, experiment, plan
        last = store.scalar("SELECT MAX(position) FROM samples WHERE dataset = :dataset", dataset=plan.dataset_sha256)
        self.samples = 0 if last is None else int(last) + 1
        self._run = str(store.scalar("SELECT run FROM experiments WHERE id = :key", key=experiment))
        twins = range(1 + len(plan.variants))
        self._keys = {
            (twin, number): variant_keys(store, experiment, number, twin)
            for twin in twins
            for number in range(len(plan.arms))
        }
        with store.connect() as connection:
            self._in_parts = bool(load_parts(connection, frozenset([self._run])))
            self.outlines = {
                place: read_outline(connection, plan, [key for key, _ in keys]) for place, keys in self._keys.items()
            }
        """By twin (0 for the original samples) and number of the arm."""

    def group_codes(self) -> Mapping[str, int] | None:
        """Return a number for each group; None where samples are independent of each other."""
        if self._plan.groups is None:
            return None
        query = "SELECT DISTINCT sample_group FROM samples WHERE dataset = :dataset"
        names = list(self._store.scalars(query, dataset=self._plan.dataset_sha256))
        if None in names or len(names) == self.samples:
            return None
        return {name: code for code, name in enumerate(sorted(names))}

    def read(self, size: int, *, with_expected: bool) -> Iterator[SampleBatch]:
        """Yield batches of so many samples, in the dataset's order."""
        scanned = ScannedRows(self._store, self._run, size) if self._in_parts else None
        with self._store.connect() as connection, contextlib.closing(scanned) if scanned else contextlib.nullcontext():
            for start in range(0, self.samples, size):
                stop = min(start + size, self.samples)
                rows = scanned.pop_until(stop) if scanned else {}
                column = partial(self._column, connection, start=start, stop=stop)
                part_of = partial(self._part, connection, scanned, rows, start, stop)
                without = [[], *(self._without_twin(connection, each, start, stop) for each in self._plan.variants)]
                of_twins = [
                    tuple(self._outcomes(part_of, twin, number, absent) for number in range(len(self._plan.arms)))
                    for twin, absent in enumerate(without)
                ]
                names = [variant.name for variant in self._plan.variants]
                yield SampleBatch(
                    start=start,
                    answers=of_twins[0],
                    variants=dict(zip(names, of_twins[1:], strict=True)),
                    sample_ids=column("sample_id"),
                    groups=column("sample_group") if self._plan.groups is not None else [None] * (stop - start),
                    expected=list(map(from_json, column("expected"))) if with_expected else (),
                )

    def count_outcomes(self, number: int) -> OutcomeCounts:
        """Return the counts of an arm's outcomes on the original samples."""
        arms = [key for key, _ in self._keys[0, number]]
        lost, first, lost_replies = Counter[str](), dict[str, str](), 0
        with self._store.connect() as connection:
            replies = connection.scalar("SELECT COUNT(*) FROM replies WHERE arm IN (:arms)", arms=arms)
            failures = (
                "SELECT failure, COUNT(*) FROM replies WHERE arm IN (:arms) AND failure IS NOT NULL GROUP BY failure"
            )
            losses = (
                "SELECT metric, reason, detail FROM lost WHERE arm IN (:arms) ORDER BY arm, position, epoch, metric"
            )
            of_kinds = dict(connection.execute(failures, arms=arms).fetchall())
            for metric, reason, detail in connection.execute(losses, arms=arms):
                lost[reason] += 1
                lost_replies += not metric
                if detail:
                    first.setdefault(metric or reason, detail.splitlines()[0])
        return OutcomeCounts(
            replies=replies, lost=dict(lost), lost_replies=lost_replies, failures=of_kinds, first=first
        )

    def first_loss(self, number: int, metric: str, twin: int = 0) -> tuple[int, str]:
        """Return on how many samples a metric of an arm raised, and its first message."""
        arms = [key for key, _ in self._keys[twin, number]]
        of_metric = "FROM lost WHERE arm IN (:arms) AND metric = :metric AND reason = 'scorer'"
        with self._store.connect() as connection:
            count = connection.scalar(f"SELECT COUNT(DISTINCT position) {of_metric}", arms=arms, metric=metric)
            query = f"SELECT detail {of_metric} AND detail <> '' ORDER BY arm, position, epoch LIMIT 1"
            return int(count), connection.scalar(query, arms=arms, metric=metric) or ""

    def _column(self, connection: Connection, column: str, start: int, stop: int) -> list[Any]:
        query = f"""
            SELECT {column} FROM samples
            WHERE dataset = :dataset AND position >= :start AND position < :stop ORDER BY position
        """
        rows = connection.execute(query, dataset=self._plan.dataset_sha256, start=start, stop=stop)
        return list(chain.from_iterable(rows))

    def _part(
        self,
        connection: Connection,
        scanned: ScannedRows | None,
        rows: Mapping[str, Columns],
        start: int,
        stop: int,
        arm: int,
        size: int,
        places: range,
    ) -> _Part:
        unit = _Range(arm=arm, start=start, stop=stop, size=size, places=places)
        return _QueriedPart(unit, connection) if scanned is None else _ScannedPart(unit, rows, scanned.metrics)

    def _without_twin(self, connection: Connection, variant: PlannedVariant, start: int, stop: int) -> list[int]:
        """Return the samples that a variant does not apply to, counted from the first of the batch."""
        query = """
            SELECT position - :start FROM twins
            WHERE variant = :sha256 AND position >= :start AND position < :stop AND reason IS NOT NULL
        """
        return list(connection.scalars(query, sha256=variant.sha256, start=start, stop=stop)) if variant.reasons else []

    def _outcomes(
        self, part_of: Callable[[int, int, range], _Part], twin: int, number: int, absent: Sequence[int]
    ) -> ArmOutcomes:
        """Return the outcomes of an arm on some samples, or on their twins; `absent` samples have none, and are skipped."""
        keys, draws, outline = self._keys[twin, number], self._plan.draws(number), self.outlines[twin, number]
        # Several keys are those of one form of the prompt each.
        own = draws.size // (draws.prompts if len(keys) > 1 else 1)
        parts = [
            part_of(key, draws.size, range(first, first + own))
            for key, variant in keys
            for first in [draws.place(variant, 0) if len(keys) > 1 else 0]
        ]
        skipped = np.add.outer(np.array(absent, dtype=np.int64) * draws.size, np.arange(draws.size)).ravel()
        skips = [(skipped, np.full(skipped.size, float(SKIPPED)))] if absent else []
        units, states = _join([*(part.replies() for part in parts), *skips])
        scores = [part.scores(outline.metrics) for part in parts]
        positions, repeats = _places(units, draws.size)
        return ArmOutcomes(
            positions=positions,
            repeats=repeats,
            # Flags: the kind of a failure matters to counts alone.
            failures=states == FAILED,
            skipped=states == SKIPPED,
            scores={name: _score_columns([part[name] for part in scores], draws.size) for name in outline.metrics},
            labels=outline.labels,
            lost=[loss for part in parts for loss in part.lost(number)],
        )


_IN_PART = "arm = :arm AND position >= :start AND position < :stop"
_Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Units, which count all replies of an arm sample by sample, and a number of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """An arm in one form of the prompt, on some samples."""

    arm: int
    start: int
    stop: int
    size: int
    """The replies of the arm to a sample, in all forms."""
    places: range
    """Those of this form among them."""

    def units(self, positions: Any, epochs: Any) -> Any:
        return (positions - self.start) * self.size + self.places[0] + epochs

    def unit(self, number: int, position: int, epoch: int) -> Unit:
        """Return the unit of a loss of the arm with a number."""
        return Unit(position - self.start, 0, number, epoch + self.places[0])


class _Part(Protocol):
    """The outcomes of such a range."""

    def replies(self) -> _Columns:
        """Return the unit and the state of each reply."""
        ...

    def scores(self, metrics: Sequence[str]) -> dict[str, _Columns]:
        """Return the units of each metric, and their values; NaN does not apply."""
        ...

    def lost(self, number: int) -> list[Lost]:
        """Return what is lost, as that of the arm with a number."""
        ...


@dataclass(frozen=True, slots=True)
class _ScannedPart:
    """Rows of Parquet parts."""

    range: _Range
    rows: Mapping[str, Columns]
    metrics: Mapping[str, int]

    def replies(self) -> _Columns:
        rows = self._of_arm("replies")
        return self._units(rows), rows["state"].astype(np.float64)

    def scores(self, metrics: Sequence[str]) -> dict[str, _Columns]:
        rows = self.rows["observations"] or _NO_ROWS
        of_arm, columns = rows["arm"] == self.range.arm, dict[str, _Columns]()
        for name in metrics:
            # Their places, because a mask of all rows is read again for each column.
            places = np.flatnonzero(of_arm & (rows["metric"] == self.metrics.get(name, -1)))
            units = self.range.units(rows["position"][places], rows["epoch"][places])
            columns[name] = units, np.asarray(rows["value"][places], dtype=np.float64)
        return columns

    def lost(self, number: int) -> list[Lost]:
        rows = self._of_arm("lost")
        columns = (rows[name].tolist() for name in ("position", "epoch", "metric", "reason", "detail"))
        return [
            Lost(self.range.unit(number, position, epoch), metric or None, reason, detail or "")
            for position, epoch, metric, reason, detail in sorted(zip(*columns, strict=True))
        ]

    def _of_arm(self, table: str) -> Columns:
        rows = self.rows[table] or _NO_ROWS
        of_arm = np.flatnonzero(rows["arm"] == self.range.arm)
        return {name: column[of_arm] for name, column in rows.items()}

    def _units(self, rows: Columns) -> Any:
        return self.range.units(rows["position"], rows["epoch"])


_NAMES = ("arm", "position", "epoch", "state", "metric", "value", "reason", "detail")
_NO_ROWS = {name: np.array([], dtype=np.int64) for name in _NAMES}


@dataclass(frozen=True, slots=True)
class _QueriedPart:
    """Rows of a database."""

    range: _Range
    connection: Connection

    def replies(self) -> _Columns:
        part = self.range
        counts = "SELECT COUNT(*), SUM(CASE WHEN skipped OR failure IS NOT NULL THEN 1 ELSE 0 END) FROM replies"
        count, others = self.connection.first(f"{counts} WHERE {_IN_PART}", **self._values)
        if count == (part.stop - part.start) * len(part.places) and not others:
            # The database counts them in a fifth of the time in which it returns them.
            starts = np.arange(part.stop - part.start, dtype=np.int64) * part.size
            return np.add.outer(starts, np.array(part.places)).ravel(), np.full(count, float(ANSWERED))
        state = f"CASE WHEN skipped THEN {SKIPPED} WHEN failure IS NULL THEN {ANSWERED} ELSE {FAILED} END"
        units, states = self._read("replies", state).T
        return units.astype(np.int64), states

    def scores(self, metrics: Sequence[str]) -> dict[str, _Columns]:
        names = {f"metric_{place}": name for place, name in enumerate(metrics)}
        cases = " ".join(f"WHEN :{name} THEN {place}" for place, name in enumerate(names)) or "WHEN '' THEN 0"
        # The only text that a float is made of: SQL has no NaN among its numbers.
        columns = f"COALESCE(value, 'NaN'), CASE metric {cases} END"
        units, values, places = self._read("observations", columns, "AND label IS NULL", **names).T
        chosen = {name: places == place for place, name in enumerate(metrics)}
        return {name: (units[rows].astype(np.int64), values[rows]) for name, rows in chosen.items()}

    def lost(self, number: int) -> list[Lost]:
        query = f"SELECT position, epoch, metric, reason, detail FROM lost WHERE {_IN_PART} ORDER BY position, epoch"
        return [
            Lost(self.range.unit(number, position, epoch), metric or None, reason, detail or "")
            for position, epoch, metric, reason, detail in self.connection.execute(query, **self._values)
        ]

    def _read(self, table: str, columns: str, condition: str = "", **values: Any) -> npt.NDArray[np.float64]:
        """Return the units of rows and some columns of numbers: rows x columns."""
        unit = f"(position - :start) * {self.range.size:d} + {self.range.places[0]:d} + epoch"
        query = f"SELECT {unit}, {columns} FROM {table} WHERE {_IN_PART} {condition} ORDER BY position, epoch"
        rows = self.connection.execute(query, **self._values, **values)
        # Without a list of rows, which the garbage collector would visit. Units are whole numbers that a float holds.
        numbers = np.fromiter(chain.from_iterable(rows), np.float64)
        return numbers.reshape(-1, len(rows.description))

    @property
    def _values(self) -> dict[str, Any]:
        return {"arm": self.range.arm, "start": self.range.start, "stop": self.range.stop}


def _join(parts: Sequence[_Columns]) -> _Columns:
    """Return the columns of several parts as those of one."""
    if len(parts) == 1:
        return parts[0]
    return (
        np.concatenate([units for units, _ in parts] or [np.array([], dtype=np.int64)]),
        np.concatenate([numbers for _, numbers in parts] or [np.array([])]),
    )


def _places(units: npt.NDArray[np.int64], size: int) -> tuple[Any, Any]:
    """Return the sample of each unit, and the place of its reply among those to the sample."""
    return np.divmod(units, size)


def _score_columns(parts: Sequence[_Columns], size: int) -> ScoreColumns:
    units, joined = _join(parts)
    positions, repeats = _places(units, size)
    # An array is a sequence to all that reads a batch.
    values: Any = joined
    # Kinds are known from the outline.
    return ScoreColumns(positions=positions, repeats=repeats, values=values, is_bool=())
