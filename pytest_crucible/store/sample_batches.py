"""Reads a stored experiment in batches of consecutive samples, so that a run larger than memory can be analysed.

Positions of a batch count from its first sample. Columns are arrays: an object for each value would take ten times their memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.records import CUT_SHORT, ArmOutcomes, Lost, OutcomeCounts, Plan, ScoreColumns, Unit
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOutline:
    """An arm as a whole: what a batch of its outcomes cannot show."""

    metrics: tuple[str, ...]
    labels: frozenset[str]
    """Metrics with texts."""
    numbers: frozenset[str]
    """Metrics with a value that is not of yes or no."""
    scored: frozenset[str]
    """Metrics with a value."""
    has_replies: bool
    has_answers: bool
    """Whether some reply has not failed."""
    lost_reasons: frozenset[str]

    @property
    def is_cut_short(self) -> bool:
        return not CUT_SHORT.isdisjoint(self.lost_reasons)


class StoredBatches:
    """The outcomes of an experiment in a database, by samples."""

    def __init__(self, store: RunStore, experiment: int, plan: Plan) -> None:
        self._store, self._experiment, self._plan = store, experiment, plan
        last = store.scalar("SELECT MAX(position) FROM samples WHERE dataset = :dataset", dataset=plan.dataset_sha256)
        self.samples = 0 if last is None else int(last) + 1
        twins = range(1 + len(plan.variants))
        self._keys = {
            (twin, number): variant_keys(store, experiment, number, twin)
            for twin in twins
            for number in range(len(plan.arms))
        }
        self.outlines = {place: self._outline([key for key, _ in keys]) for place, keys in self._keys.items()}
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
        with self._store.connect() as connection:
            for start in range(0, self.samples, size):
                stop = min(start + size, self.samples)
                columns = "sample_id, sample_group, expected" if with_expected else "sample_id, sample_group"
                ids, groups, *expected = self._samples(connection, columns, start, stop)
                of_twins = [
                    tuple(self._outcomes(connection, twin, number, start, stop) for number in range(len(self._plan.arms)))
                    for twin in range(1 + len(self._plan.variants))
                ]
                names = [variant.name for variant in self._plan.variants]
                yield SampleBatch(
                    start=start,
                    answers=of_twins[0],
                    variants=dict(zip(names, of_twins[1:], strict=True)),
                    sample_ids=ids,
                    groups=groups,
                    expected=list(map(from_json, expected[0])) if expected else (),
                )

    def count_outcomes(self, number: int) -> OutcomeCounts:
        """Return the counts of an arm's outcomes on the original samples."""
        arms = [key for key, _ in self._keys[0, number]]
        lost, first, lost_replies = Counter[str](), dict[str, str](), 0
        with self._store.connect() as connection:
            replies = connection.scalar("SELECT COUNT(*) FROM replies WHERE arm IN (:arms)", arms=arms)
            failures = "SELECT failure, COUNT(*) FROM replies WHERE arm IN (:arms) AND failure IS NOT NULL GROUP BY failure"
            losses = "SELECT metric, reason, detail FROM lost WHERE arm IN (:arms) ORDER BY arm, position, epoch, metric"
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

    def _samples(self, connection: Connection, columns: str, start: int, stop: int) -> list[Sequence[Any]]:
        query = f"""
            SELECT {columns} FROM samples
            WHERE dataset = :dataset AND position >= :start AND position < :stop ORDER BY position
        """
        rows = connection.execute(query, dataset=self._plan.dataset_sha256, start=start, stop=stop)
        return list(zip(*rows.fetchall(), strict=True))

    def _outline(self, arms: Sequence[int]) -> ArmOutline:
        # A condition that the first row meets ends its search there.
        of_arm = "arm IN (:arms)"
        with self._store.connect() as connection:
            query = f"SELECT DISTINCT metric FROM observations WHERE {of_arm}"
            metrics = sorted(connection.scalars(query, arms=arms))

            def is_found(table: str, condition: str, **values: Any) -> bool:
                found = f"SELECT 1 FROM {table} WHERE {of_arm} AND {condition} LIMIT 1"
                return connection.scalar(found, arms=arms, **values) is not None

            def metrics_with(condition: str, names: Sequence[str] | frozenset[str] = metrics) -> frozenset[str]:
                condition = f"metric = :metric AND {condition}"
                of_names = {name: is_found("observations", condition, metric=name, no=False) for name in names}
                return frozenset(name for name, is_there in of_names.items() if is_there)

            known = {facts.name for facts in self._plan.metrics if facts.kind is not None}
            scored = metrics_with("value IS NOT NULL AND label IS NULL")
            return ArmOutline(
                metrics=tuple(metrics),
                labels=metrics_with("label IS NOT NULL", [name for name in metrics if name not in known]),
                numbers=metrics_with("value IS NOT NULL AND label IS NULL AND is_bool = :no", scored - known),
                scored=scored,
                has_replies=is_found("replies", "position >= 0"),
                has_answers=is_found("replies", "failure IS NULL"),
                lost_reasons=frozenset(
                    connection.scalars(f"SELECT DISTINCT reason FROM lost WHERE {of_arm}", arms=arms)
                ),
            )

    def _outcomes(self, connection: Connection, twin: int, number: int, start: int, stop: int) -> ArmOutcomes:
        """Return the outcomes of an arm on some samples, or on their twins."""
        keys, draws = self._keys[twin, number], self._plan.draws(number)
        parts = [
            _Part(connection, key, start, stop, draws.place(variant, 0) if len(keys) > 1 else 0)
            for key, variant in keys
        ]
        outline = self.outlines[twin, number]
        positions, repeats, failures, skipped = _join([part.replies() for part in parts], 4)
        return ArmOutcomes(
            positions=positions,
            repeats=repeats,
            failures=failures.tolist(),
            skipped=skipped.astype(bool),
            scores={name: _score_columns([part.scores(name) for part in parts]) for name in outline.metrics},
            labels=outline.labels,
            lost=[loss for part in parts for loss in part.lost(number)],
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of an arm in one form of the prompt, of some samples."""

    connection: Connection
    arm: int
    start: int
    stop: int
    shift: int
    """Added to the repeat: the place of the prompt's first reply."""

    def replies(self) -> Sequence[Any]:
        positions, repeats, failures, skipped = self._columns("replies", "position, epoch, failure, skipped")
        return _index(positions) - self.start, _index(repeats) + self.shift, _objects(failures), _index(skipped)

    def scores(self, metric: str) -> Sequence[Any]:
        columns = "position, epoch, value"
        condition = "AND metric = :metric AND label IS NULL"
        positions, repeats, values = self._columns("observations", columns, condition, metric=metric)
        return _index(positions) - self.start, _index(repeats) + self.shift, np.array(values, dtype=np.float64)

    def lost(self, number: int) -> list[Lost]:
        rows = self._columns("lost", "position, epoch, metric, reason, detail")
        return [
            Lost(Unit(position - self.start, 0, number, repeat + self.shift), metric or None, reason, detail or "")
            for position, repeat, metric, reason, detail in zip(*rows, strict=True)
        ]

    def _columns(self, table: str, columns: str, condition: str = "", **values: Any) -> list[Sequence[Any]]:
        query = f"""
            SELECT {columns} FROM {table} WHERE arm = :arm AND position >= :start AND position < :stop {condition}
            ORDER BY position, epoch
        """
        rows = self.connection.execute(query, arm=self.arm, start=self.start, stop=self.stop, **values).fetchall()
        return list(zip(*rows, strict=True)) or [() for _ in columns.split(", ")]


def _index(values: Sequence[int]) -> Any:
    return np.array(values, dtype=np.int64)


def _objects(values: Sequence[Any]) -> Any:
    return np.array(values, dtype=object)


def _join(parts: Sequence[Sequence[Any]], width: int) -> list[Any]:
    """Return the columns of several parts as those of one."""
    if not parts:
        return [np.array([], dtype=np.int64) for _ in range(width)]
    return list(parts[0]) if len(parts) == 1 else [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _score_columns(parts: Sequence[Sequence[Any]]) -> ScoreColumns:
    positions, repeats, values = _join(parts, 3)
    # Kinds are known from the outline.
    return ScoreColumns(positions=positions, repeats=repeats, values=values, is_bool=())
