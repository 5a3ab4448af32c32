"""The outcomes of imported rows in batches of samples, from their columns: nothing is written to a store and read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.importers.packed_rows import ABSENT, RowColumns
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Lost, OutcomeCounts, Plan, Sample, Unit, Value
from pytest_crucible.runs.imported_samples import NamedSamples
from pytest_crucible.runs.imported_tasks import Task
from pytest_crucible.store.arm_outlines import ArmOutline
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sample_batches import SampleBatch, batch_size, score_columns, split_units
from pytest_crucible.store.texts import sanitize_text
from pytest_crucible.store.unit_ranges import UnitColumns


class ImportedBatches:
    """The outcomes of an imported task, as `StoredBatches` returns those of a stored one. It has no variants."""

    def __init__(self, task: Task, plan: Plan, samples: Sequence[Sample], store: RunStore) -> None:
        """`store` redacts ids and messages. Nothing is read from it."""
        assert isinstance(samples, NamedSamples)
        self._ids = store.hide_ids(samples.ids)
        self._groups = () if plan.groups is None else store.hide_ids(samples.groups)
        places = _Places(task.samples)
        rows = (RowColumns.of(results.rows) for results in task.arms)
        self._arms = [_ArmColumns.of(columns, plan, number, places, store) for number, columns in enumerate(rows)]
        self.outlines: Mapping[tuple[int, int], ArmOutline] = {
            (0, number): arm.outline() for number, arm in enumerate(self._arms)
        }

    def group_codes(self) -> Mapping[str, int] | None:
        """Return a number for each group; None where samples are independent of each other."""
        names = sorted({*self._groups})
        return None if len(names) in (0, len(self._ids)) else {name: code for code, name in enumerate(names)}

    def read(self, size: int, *, with_expected: bool) -> Iterator[SampleBatch]:
        """Yield batches of about so many samples, in the dataset's order."""
        size = batch_size(size)
        for start in range(0, len(self._ids), size):
            stop = min(start + size, len(self._ids))
            yield SampleBatch(
                start=start,
                answers=tuple(arm.outcomes(start, stop) for arm in self._arms),
                variants={},
                sample_ids=self._ids[start:stop],
                groups=self._groups[start:stop] or [None] * (stop - start),
                expected=[None] * (stop - start) if with_expected else [],
            )

    def count_outcomes(self, number: int) -> OutcomeCounts:
        """Return the counts of an arm's outcomes."""
        arm, first = self._arms[number], dict[str, str]()
        for loss in arm.lost:
            if loss.detail:
                first.setdefault(loss.metric or loss.reason, loss.detail.splitlines()[0])
        return OutcomeCounts(
            replies=len(arm.units),
            lost=Counter(loss.reason for loss in arm.lost),
            lost_replies=sum(loss.metric is None for loss in arm.lost),
            failures={},
            first=first,
        )

    def first_loss(self, number: int, metric: str, twin: int = 0) -> tuple[int, str]:
        """Return on how many samples a metric of an arm is lost, and its first message."""
        lost = [loss for loss in self._arms[number].lost if loss.metric == metric]
        return len({loss.unit.position for loss in lost}), next((loss.detail for loss in lost if loss.detail), "")


class _Places:
    """The places of ids among the samples."""

    def __init__(self, samples: Sequence[str]) -> None:
        self._samples = samples
        self._places: dict[str, int] = {}

    def of(self, ids: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the place of each id; -1 for one that is not there."""
        if len(ids) == len(self._samples) and all(map(eq, ids, self._samples)):
            return np.arange(len(ids))
        self._places = self._places or {sample: place for place, sample in enumerate(self._samples)}
        return np.fromiter((self._places.get(sample, -1) for sample in ids), np.int64, len(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArmColumns:
    """An arm. Its units count the replies sample by sample, and rise."""

    size: int
    """Replies to a sample."""
    units: npt.NDArray[np.int64]
    scores: Mapping[str, UnitColumns]
    lost: Sequence[Lost]

    @classmethod
    def of(cls, columns: RowColumns, plan: Plan, number: int, places: _Places, store: RunStore) -> _ArmColumns:
        positions, size = places.of(columns.samples), plan.draws(number).size
        repeats = np.array(columns.repeats, dtype=np.int64)
        units = positions * size + repeats
        is_in = (positions >= 0) & (repeats < plan.repeats)
        lost = [
            loss
            for place in {**columns.errors, **columns.lost}
            if is_in[place]
            for loss in _losses(columns, place, Unit(int(positions[place]), 0, number, columns.repeats[place]))
        ]
        is_in[[*columns.errors]] = False
        order = np.flatnonzero(is_in)
        order = order[np.argsort(units[order], kind="stable")]
        units = units[order]
        of_metrics = {
            name: _scores(values, plan.facts[name].kind, units, order) for name, values in columns.scores.items()
        }
        return cls(
            size=size,
            units=units,
            scores={name: column for name, column in sorted(of_metrics.items()) if column is not None},
            lost=[
                replace(loss, detail=store.hide(sanitize_text(loss.detail)))
                for loss in sorted(lost, key=_place_of_loss)
            ],
        )

    def outline(self) -> ArmOutline:
        """Return the outline of the arm. The kinds of all metrics are declared, and no reply has failed."""
        return ArmOutline(
            metrics=tuple(self.scores),
            labels=frozenset(),
            numbers=frozenset(),
            scored=frozenset(name for name, (_, values) in self.scores.items() if not np.isnan(values).all()),
            has_replies=bool(self.units.size),
            has_answers=bool(self.units.size),
            lost_reasons=frozenset(loss.reason for loss in self.lost),
        )

    def outcomes(self, start: int, stop: int) -> ArmOutcomes:
        """Return the outcomes on some samples, counted from the first of them."""
        units, _ = self._part(self.units, self.units, start, stop)
        positions, repeats = split_units(units, self.size)
        never: Any = np.zeros(units.size, dtype=bool)
        return ArmOutcomes(
            positions=positions,
            repeats=repeats,
            failures=never,
            skipped=never,
            scores={
                name: score_columns([self._part(*column, start, stop)], self.size)
                for name, column in self.scores.items()
            },
            labels=frozenset(),
            lost=[
                replace(loss, unit=loss.unit._replace(position=loss.unit.position - start))
                for loss in self.lost
                if start <= loss.unit.position < stop
            ],
        )

    def _part(self, units: npt.NDArray[np.int64], values: npt.NDArray[Any], start: int, stop: int) -> Any:
        first, end = np.searchsorted(units, [start * self.size, stop * self.size])
        return units[first:end] - start * self.size, values[first:end]


def _losses(columns: RowColumns, place: int, unit: Unit) -> Iterator[Lost]:
    if place in columns.errors:
        yield Lost(unit, None, "error", columns.errors[place])
    else:
        yield from (Lost(unit, metric, "scorer", why) for metric, why in columns.lost[place].items())


def _place_of_loss(loss: Lost) -> tuple[int, int, str]:
    return loss.unit.position, loss.unit.repeat, loss.metric or ""


def _scores(
    column: Sequence[Value | None], kind: str | None, units: npt.NDArray[np.int64], order: npt.NDArray[np.intp]
) -> UnitColumns | None:
    """Return the units that have a score, and their scores; NaN where a metric does not apply. None without any.

    `order` has the place in the column of each unit. A text is not a score.
    """
    if ABSENT in column:
        units, order = _keep(units, order, [value is not ABSENT for value in column])
        column = [None if value is ABSENT else value for value in column]
    if not units.size:
        return None
    if kind == "text":
        units, order = _keep(units, order, [value is None for value in column])
        column = [None] * len(column)
    values = np.array(column, dtype=np.float64)[order]
    if kind == "binary":
        values = np.where(np.isnan(values), values, values != 0)
    return units, values


def _keep(units: npt.NDArray[np.int64], order: npt.NDArray[np.intp], chosen: Sequence[bool]) -> Any:
    flags = np.array(chosen, dtype=bool)[order]
    return units[flags], order[flags]
