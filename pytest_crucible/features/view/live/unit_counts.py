"""Counts the units of a run that is being written: each row is counted once, however often they are counted."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.store.database import Connection, Cursor

_SETTLED_AT = 1_000
"""Rows above which the complete positions among them are counted for the last time."""
_POSITIONS = 20_000
"""Positions that are looked at together."""
_END = 2**31 - 1


@dataclass(slots=True)
class ScoreSums:
    """Sums over the scores of one metric."""

    n: int = 0
    """Replies that it applies to."""
    total: float = 0.0
    numbers: int = 0
    """Scores that are not yes or no."""
    failed: int = 0
    """Rows, also of "does not apply", of replies that failed afterwards."""

    def add(self, other: ScoreSums) -> None:
        self.n, self.total = self.n + other.n, self.total + other.total
        self.numbers, self.failed = self.numbers + other.numbers, self.failed + other.failed


@dataclass(slots=True)
class UnitCounts:
    """Counts of the units of one arm."""

    answered: int = 0
    skipped: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """By the kind of failure."""
    lost: Counter[str] = field(default_factory=Counter)
    """Whole replies, by reason."""
    lost_scores: Counter[str] = field(default_factory=Counter)
    """Scores of replies that are there, by reason."""
    scores: dict[str, ScoreSums] = field(default_factory=dict)
    """By metric, without texts."""
    last: float = 0.0
    """When the last of them was answered, in seconds since 1970; 0 for none."""

    @property
    def done(self) -> int:
        return self.answered + self.skipped + self.failed.total() + self.lost.total()

    def add(self, other: UnitCounts) -> None:
        self.answered, self.skipped = self.answered + other.answered, self.skipped + other.skipped
        self.failed += other.failed
        self.lost += other.lost
        self.lost_scores += other.lost_scores
        for metric, sums in other.scores.items():
            self.scores.setdefault(metric, ScoreSums()).add(sums)
        self.last = max(self.last, other.last)


class _Range(NamedTuple):
    """Positions of an arm: from the first to the one before the end."""

    arm: int
    first: int
    end: int


@dataclass(slots=True)
class _Settled:
    """The positions of an arm whose units are all done, and their counts."""

    copied: int
    end: int = 0
    counts: UnitCounts = field(default_factory=UnitCounts)


class UnitTally:
    """Counts units by arm. Positions that are complete are not read again: most samples come in the dataset's order."""

    def __init__(self) -> None:
        self._arms: dict[int, _Settled] = {}
        self._open: Mapping[int, UnitCounts] = {}

    def count(self, connection: Connection, arms: Mapping[int, tuple[int, int]]) -> dict[int, UnitCounts]:
        """Return the counts of arms by their keys, from each one's units of a sample and copied replies."""
        for arm, (_, copied) in arms.items():
            # Copies that are sent again are deleted.
            if arm not in self._arms or self._arms[arm].copied != copied:
                self._arms[arm] = _Settled(copied)
                self._open = {}
        self._settle(connection, {arm: size for arm, (size, _) in arms.items() if self._is_due(arm)})
        self._open = _count(connection, [_Range(arm, self._arms[arm].end, _END) for arm in arms])
        return {arm: self._sum(arm) for arm in arms}

    def _is_due(self, arm: int) -> bool:
        return arm not in self._open or self._open[arm].done > _SETTLED_AT

    def _sum(self, arm: int) -> UnitCounts:
        counts = copy.deepcopy(self._arms[arm].counts)
        counts.add(self._open.get(arm, UnitCounts()))
        return counts

    def _settle(self, connection: Connection, sizes: Mapping[int, int]) -> None:
        """Count the positions that have become complete."""
        ends = {arm: _complete_end(connection, arm, self._arms[arm].end, size) for arm, size in sizes.items()}
        ranges = [_Range(arm, self._arms[arm].end, end) for arm, end in ends.items() if end > self._arms[arm].end]
        for arm, counts in _count(connection, ranges).items():
            self._arms[arm].counts.add(counts)
        for arm, _, end in ranges:
            self._arms[arm].end = end


def _complete_end(connection: Connection, arm: int, first: int, size: int) -> int:
    """Return the first position from here on of which not all units are answered, skipped or lost."""
    lost = (
        "SELECT position, COUNT(*) FROM lost WHERE arm = :arm AND metric = '' AND position >= :first GROUP BY position"
    )
    units: Counter[int] = Counter(dict(connection.execute(lost, arm=arm, first=first)))
    replies = """
        SELECT position, COUNT(*) FROM replies WHERE arm = :arm AND position >= :first
        GROUP BY position ORDER BY position LIMIT :positions
    """
    end = first
    part: dict[int, int]
    while part := dict(connection.execute(replies, arm=arm, first=end, positions=_POSITIONS)):
        units.update(part)
        start = end
        while units[end] >= size:
            end += 1
        if end - start < len(part):
            break
    return end


def _count(connection: Connection, ranges: Sequence[_Range]) -> dict[int, UnitCounts]:
    """Return the counts of the units in ranges by the key of the arm."""
    counts: dict[int, UnitCounts] = {part.arm: UnitCounts() for part in ranges}
    if not ranges:
        return counts
    _add_replies(connection, ranges, counts)
    _add_lost(connection, ranges, counts)
    _add_scores(connection, ranges, counts)
    return counts


def _add_replies(connection: Connection, ranges: Sequence[_Range], counts: Mapping[int, UnitCounts]) -> None:
    query = """
        SELECT units.arm, failure, skipped, COUNT(*), MAX(started + COALESCE(latency_s, 0)) FROM {units}
        GROUP BY units.arm, failure, skipped
    """
    for arm, failure, skipped, n, last in _execute(connection, query, "replies AS units", ranges):
        counts[arm].last = max(counts[arm].last, last or 0.0)
        if failure is not None:
            counts[arm].failed[failure] += n
        elif skipped:
            counts[arm].skipped += n
        else:
            counts[arm].answered += n


def _add_lost(connection: Connection, ranges: Sequence[_Range], counts: Mapping[int, UnitCounts]) -> None:
    query = """
        SELECT units.arm, CASE WHEN metric = '' THEN 1 ELSE 0 END AS is_whole, reason, COUNT(*) FROM {units}
        GROUP BY units.arm, is_whole, reason
    """
    for arm, is_whole, reason, n in _execute(connection, query, "lost AS units", ranges):
        (counts[arm].lost if is_whole else counts[arm].lost_scores)[reason] += n


def _add_scores(connection: Connection, ranges: Sequence[_Range], counts: Mapping[int, UnitCounts]) -> None:
    query = """
        SELECT units.arm, metric, COUNT(value), COALESCE(SUM(value), 0.0),
            SUM(CASE WHEN value IS NULL OR is_bool THEN 0 ELSE 1 END) FROM {units}
        AND label IS NULL GROUP BY units.arm, metric
    """
    for arm, metric, n, total, numbers in _execute(connection, query, "observations AS units", ranges):
        counts[arm].scores[metric] = ScoreSums(n, total, numbers)
    with_failures = [part for part in ranges if counts[part.arm].failed]
    if not with_failures:
        return
    of_failed = """
        SELECT units.arm, scores.metric, COUNT(*) FROM {units} AND units.failure IS NOT NULL AND label IS NULL
        GROUP BY units.arm, scores.metric
    """
    same_unit = "scores.arm = units.arm AND scores.position = units.position AND scores.epoch = units.epoch"
    tables = f"replies AS units JOIN observations AS scores ON {same_unit}"
    for arm, metric, n in _execute(connection, of_failed, tables, with_failures):
        counts[arm].scores[metric].failed = n


def _execute(connection: Connection, query: str, tables: str, ranges: Sequence[_Range]) -> Cursor:
    """Execute a query about the rows in ranges; `{units}` in it stands for them, up to a condition."""
    values = {f"{name}_{k}": value for k, part in enumerate(ranges) for name, value in part._asdict().items()}
    rows = ", ".join(f"(:arm_{k}, :first_{k}, :end_{k})" for k in range(len(ranges)))
    # CROSS JOIN: SQLite would else read the whole table, and look up its rows among the ranges.
    units = f"""
        ranges CROSS JOIN {tables}
        WHERE units.arm = ranges.arm AND units.position >= ranges.first AND units.position < ranges.past
    """
    return connection.execute(
        f"WITH ranges (arm, first, past) AS (VALUES {rows}) {query.format(units=units)}", **values
    )
