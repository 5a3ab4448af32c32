"""What a file of another harness holds: who was asked, what each sample scored, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pytest_crucible.importing.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one arm got for one sample in one repeat."""

    sample: str
    epoch: int = 0
    """Counted from 0."""
    scores: Mapping[str, Value | None] = field(default_factory=dict)
    """None says that the metric does not apply."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why there should be a value and is none."""
    error: str = ""
    """Why there is no reply at all: then nothing is scored."""
    reply: Reply | None = None
    input: Any = None
    expected: Any = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One arm on one task."""

    task: str
    arm: str
    rows: Sequence[Row]
    facts: Mapping[str, MetricFacts] = field(default_factory=dict)
    """What the file itself declares of its metrics."""
    planned: Sequence[str] = ()
    """The samples that were to be asked, where the file says so: one that has no row was not reached."""
    epochs: int = 1
    finished: bool = True
    """False where the run was cut short."""
    identity: str = ""
    """Of the file, the task and the arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One file."""

    path: str
    sha256: str
    harness: str
    version: str
    """Of the harness that wrote it; empty where the file does not say."""
    results: Sequence[Results]
    notes: Sequence[str] = ()
    """What was left out, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a reader makes of a file, before it is known which file it was."""

    version: str
    results: Sequence[Results]
    notes: Sequence[str] = ()


class Reader(Protocol):
    """One format: a module of this room."""

    def recognises(self, source: Source) -> bool:
        """By the look of the content, never by the name of the file."""

    def read(self, source: Source, columns: Mapping[str, str]) -> Found:
        """All of it. `columns` has what the user says of a table: role -> column. Raises SpecError."""


def numbered(rows: Sequence[Row]) -> list[Row]:
    """Where a harness does not count repeats, the second row of a sample is its second repeat."""
    seen: Counter[str] = Counter()
    found = []
    for row in rows:
        found.append(replace(row, epoch=seen[row.sample]))
        seen[row.sample] += 1
    return found


def by_arm(rows: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    """Rows of several arms, arm by arm."""
    found: dict[str, list[Row]] = {}
    for arm, row in rows:
        found.setdefault(arm, []).append(row)
    return found
