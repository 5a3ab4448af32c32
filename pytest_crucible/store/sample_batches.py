"""Reads a stored experiment in batches of consecutive samples, so that a run larger than memory can be analysed.

Positions of a batch count from its first sample. Columns are arrays: an object for each value would take ten times their memory.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, OutcomeCounts, Plan, PlannedVariant, ScoreColumns
from pytest_crucible.store.arm_outlines import ArmOutline, read_outline
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.part_reader import load_parts
from pytest_crucible.store.range_outcomes import QueriedRange, read_ranges
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.scanned_rows import FAILED, SKIPPED, ScannedRows
from pytest_crucible.store.unit_ranges import RangeReader, UnitColumns, UnitRange


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


class Batches(Protocol):
    """The outcomes of an experiment that is larger than memory, by samples: in a database, or of imported rows."""

    outlines: Mapping[tuple[int, int], ArmOutline]
    """By twin (0 for the original samples) and number of the arm."""

    def group_codes(self) -> Mapping[str, int] | None:
        """Return a number for each group; None where samples are independent of each other."""
        ...

    def read(self, size: int, *, with_expected: bool) -> Iterator[SampleBatch]:
        """Yield batches of so many samples, in the dataset's order."""
        ...

    def count_outcomes(self, number: int) -> OutcomeCounts:
        """Return the counts of an arm's outcomes on the original samples."""
        ...

    def first_loss(self, number: int, metric: str, twin: int = 0) -> tuple[int, str]:
        """Return on how many samples a metric of an arm raised, and its first message."""
        ...


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
        self._places = dict(chain.from_iterable(map(self._arm_places, self._keys)))
        """By key of the arm: the replies of the arm to a sample in all forms of the prompt, and those of its own form."""
        with store.connect() as connection:
            self._in_parts = bool(load_parts(connection, frozenset([self._run])))
            self.outlines: Mapping[tuple[int, int], ArmOutline] = {
                place: read_outline(connection, plan, [key for key, _ in keys]) for place, keys in self._keys.items()
            }
        self._metrics = sorted({name for outline in self.outlines.values() for name in outline.metrics})

    def _arm_places(self, place: tuple[int, int]) -> Iterator[tuple[int, tuple[int, range]]]:
        keys, draws = self._keys[place], self._plan.draws(place[1])
        # Several keys are those of one form of the prompt each.
        own = draws.size // (draws.prompts if len(keys) > 1 else 1)
        for key, variant in keys:
            first = draws.place(variant, 0) if len(keys) > 1 else 0
            yield key, (draws.size, range(first, first + own))

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
        size = batch_size(size)
        # Rows are read in a quarter of the range at a time: they take more memory than their values.
        step = max(1, size // _STEPS)
        scanned = ScannedRows(self._store, self._run, step, self._metrics) if self._in_parts else None
        with (
            self._store.connect() as connection,
            contextlib.closing(scanned) if scanned else contextlib.nullcontext(),
            # Databases and Parquet files are read without Python's lock.
            ThreadPoolExecutor(1) as beside,
        ):
            for start in range(0, self.samples, size):
                stop = min(start + size, self.samples)
                columns = beside.submit(self._sample_columns, start, stop, with_expected=with_expected)
                readers = self._read_ranges(connection, start, stop, start + size, scanned)
                without = [[], *(self._without_twin(connection, each, start, stop) for each in self._plan.variants)]
                of_twins = [
                    tuple(self._outcomes(readers, twin, number, absent) for number in range(len(self._plan.arms)))
                    for twin, absent in enumerate(without)
                ]
                names = [variant.name for variant in self._plan.variants]
                sample_ids, groups, expected = columns.result()
                yield SampleBatch(
                    start=start,
                    answers=of_twins[0],
                    variants=dict(zip(names, of_twins[1:], strict=True)),
                    sample_ids=sample_ids,
                    groups=groups,
                    expected=expected,
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

    def _sample_columns(
        self, start: int, stop: int, *, with_expected: bool
    ) -> tuple[list[str], list[str | None], list[Any]]:
        """Return the ids of some samples, their groups, and their `expected` if it is asked for."""
        with self._store.connect() as connection:
            column = partial(self._column, connection, start=start, stop=stop)
            groups = column("sample_group") if self._plan.groups is not None else [None] * (stop - start)
            return column("sample_id"), groups, list(map(from_json, column("expected"))) if with_expected else []

    def _column(self, connection: Connection, column: str, start: int, stop: int) -> list[Any]:
        if connection.is_sqlite and column in _TEXTS and (texts := self._texts_by_row(connection, column, start, stop)):
            return texts
        query = f"""
            SELECT {column} FROM samples
            WHERE dataset = :dataset AND position >= :start AND position < :stop ORDER BY position
        """
        values = {"dataset": self._plan.dataset_sha256, "start": start, "stop": stop}
        return list(chain.from_iterable(connection.execute(query, **values)))

    def _texts_by_row(self, connection: Connection, column: str, start: int, stop: int) -> list[str] | None:
        """Return the texts of samples whose rows SQLite has stored one behind the other, as those of most datasets are.

        Otherwise None. A search by position takes a jump to the row of each sample, and each row an object in Python: one text
        of all, which is read without Python's lock, takes a third of that time.
        """
        own = "dataset = :dataset AND position = :position"
        values = {"dataset": self._plan.dataset_sha256}
        first = connection.scalar(f"SELECT rowid FROM samples WHERE {own}", position=start, **values)
        if first is None:
            return None
        # An index would give another order; without a plus sign SQLite would search by the dataset.
        query = f"""
            SELECT COUNT(*), GROUP_CONCAT({column}, '\n') FROM samples NOT INDEXED
            WHERE rowid >= :first AND rowid < :last AND +dataset = :dataset AND position - rowid = :distance
        """
        values |= {"first": first, "last": first + stop - start, "distance": start - first}
        count, joined = connection.first(query, **values)
        texts = joined.split("\n") if joined else []
        # NULL is left out, and a text may have several lines.
        return texts if count == len(texts) == stop - start else None

    def _read_ranges(
        self, connection: Connection, start: int, stop: int, end: int, scanned: ScannedRows | None
    ) -> Mapping[int, RangeReader]:
        """Return the outcomes on some samples by the key of their arm; `end` is that of a whole batch."""
        ranges = [
            UnitRange(arm=key, start=start, stop=stop, size=size, places=places)
            for key, (size, places) in self._places.items()
        ]
        if scanned is not None:
            return read_ranges(scanned, end, ranges, len(self._metrics))
        return {part.arm: QueriedRange(part, connection) for part in ranges}

    def _without_twin(self, connection: Connection, variant: PlannedVariant, start: int, stop: int) -> list[int]:
        """Return the samples that a variant does not apply to, counted from the first of the batch."""
        query = """
            SELECT position - :start FROM twins
            WHERE variant = :sha256 AND position >= :start AND position < :stop AND reason IS NOT NULL
        """
        return list(connection.scalars(query, sha256=variant.sha256, start=start, stop=stop)) if variant.reasons else []

    def _outcomes(
        self, readers: Mapping[int, RangeReader], twin: int, number: int, absent: Sequence[int]
    ) -> ArmOutcomes:
        """Return the outcomes of an arm on some samples, or on their twins; `absent` samples have none, and are skipped."""
        draws, outline = self._plan.draws(number), self.outlines[twin, number]
        parts = [readers[key] for key, _ in self._keys[twin, number]]
        skipped = np.add.outer(np.array(absent, dtype=np.int64) * draws.size, np.arange(draws.size)).ravel()
        skips = [(skipped, np.full(skipped.size, float(SKIPPED)))] if absent else []
        units, states = _join([*(part.replies() for part in parts), *skips])
        scores = [part.scores(outline.metrics) for part in parts]
        positions, repeats = split_units(units, draws.size)
        return ArmOutcomes(
            positions=positions,
            repeats=repeats,
            # Flags: the kind of a failure matters to counts alone.
            failures=states == FAILED,
            skipped=states == SKIPPED,
            scores={name: score_columns([part[name] for part in scores], draws.size) for name in outline.metrics},
            labels=outline.labels,
            lost=[loss for part in parts for loss in part.lost(number)],
        )


_STEPS = 4


def batch_size(most: int) -> int:
    """Return the samples of a batch, of at most so many: those of a batch of equal steps."""
    return min(most, max(1, most // _STEPS) * _STEPS)


_TEXTS = ("sample_id", "sample_group")
"""Columns of samples without numbers."""


def _join(parts: Sequence[UnitColumns]) -> UnitColumns:
    """Return the columns of several parts as those of one."""
    if len(parts) == 1:
        return parts[0]
    return (
        np.concatenate([units for units, _ in parts] or [np.array([], dtype=np.int64)]),
        np.concatenate([numbers for _, numbers in parts] or [np.array([])]),
    )


def split_units(units: npt.NDArray[np.int64], size: int) -> tuple[Any, Any]:
    """Return the sample of each unit, and the place of its reply among those to the sample."""
    return (units, np.zeros_like(units)) if size == 1 else np.divmod(units, size)


def score_columns(parts: Sequence[UnitColumns], size: int) -> ScoreColumns:
    """Return the scores of all parts, of which each sample has so many places."""
    units, joined = _join(parts)
    positions, repeats = split_units(units, size)
    # An array is a sequence to all that reads a batch.
    values: Any = joined
    # Kinds are known from the outline.
    return ScoreColumns(positions=positions, repeats=repeats, values=values, is_bool=())
