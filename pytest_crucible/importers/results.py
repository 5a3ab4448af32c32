"""Records of imported files: arms, the scores of each sample, and what is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError


class NoSampleScoresError(SpecError):
    """A file of results without scores of single samples. In a directory, the other files are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one arm on one sample in one repeat."""

    sample: str
    repeat: int = 0
    """Counted from 0."""
    scores: Mapping[str, Value | None] = field(default_factory=dict)
    """None if the metric does not apply."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why its value is lost."""
    error: str = ""
    """Why the whole sample is lost; empty otherwise."""
    reply: Reply | None = None
    input: Any = None
    expected: Any = None
    group: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the sample, not of the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of one arm on one task, sample by sample."""

    task: str
    arm: str
    rows: Sequence[Row]
    facts: Mapping[str, MetricFacts] = field(default_factory=dict)
    """The declarations of metrics that the file has."""
    planned: Sequence[str] = ()
    """The samples that the run planned, where the file lists them: one without a row was not reached."""
    repeats: int = 1
    finished: bool = True
    """False where the run was cut short."""
    identity: str = ""
    """Of the file, the task and the arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """The content of one imported file: its results, its harness and its hash."""

    path: str
    sha256: str
    harness: str
    version: str
    """The version of the harness that wrote it; empty if the file has none."""
    results: Sequence[Results]
    notes: Sequence[str] = ()
    """A sentence for each thing that was left out."""
    folder: str = ""
    """The directory that the user named, where the file is one of its files."""

    @property
    def origin(self) -> str:
        """The path that the user named."""
        return self.folder or self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """A file's content as a reader returns it, without path and hash."""

    version: str
    results: Sequence[Results]
    notes: Sequence[str] = ()


class Reader(Protocol):
    """The reader of one format: a module with two functions, or a `FormatReader`."""

    def recognises(self, source: Source) -> bool:
        """Return whether the content has this format. The file's name does not matter. Never raises: any content may come."""

    def read(self, source: Source, columns: Mapping[str, str]) -> ParsedFile:
        """Return the whole content. `columns` has the user's roles of a table's columns. Raises SpecError."""


@dataclass(frozen=True, slots=True)
class FormatReader:
    """The reader of one of several formats that a module reads."""

    recognises: Callable[[Source], bool]
    read: Callable[[Source, Mapping[str, str]], ParsedFile]


def one_arm(
    *,
    task: str,
    arm: str,
    rows: Sequence[Row],
    facts: Mapping[str, MetricFacts] | None = None,
    planned: Sequence[str] = (),
    finished: bool = True,
    version: str = "",
    notes: Sequence[str] = (),
) -> ParsedFile:
    """Return the content of a file with one arm, whose repeats are those of its rows."""
    results = Results(
        task=task,
        arm=arm,
        rows=rows,
        facts=facts or {},
        planned=planned,
        repeats=max((row.repeat for row in rows), default=0) + 1,
        finished=finished,
    )
    return ParsedFile(version=version, results=[results], notes=notes)


def split_values(values: Mapping[str, Value | None], why: str) -> dict[str, Any]:
    """Return `scores` and `lost` of a row: a value of None is lost, for this reason."""
    scores = {name: value for name, value in values.items() if value is not None}
    return {"scores": scores, "lost": dict.fromkeys((name for name in values if name not in scores), why)}


def number_repeats(rows: Sequence[Row]) -> list[Row]:
    """Number the repeats of a harness that does not: the second row of a sample is its second repeat.

    A sample with more rows than most samples is in the dataset twice: its further rows are a sample `NAME (2)`, in one
    group with the first. The file does not distinguish it from a sample that was run more often, and two replies to one input
    must not count as independent.
    """
    counts = Counter(Counter(row.sample for row in rows).values())
    # Of two equally frequent numbers the larger: repeats rather than more samples.
    repeats = max(counts, key=lambda count: (counts[count], count), default=1)
    has_twins = max(counts, default=0) > repeats
    seen: Counter[str] = Counter()
    numbered = []
    for row in rows:
        twin, repeat = divmod(seen[row.sample], repeats)
        name = f"{row.sample} ({twin + 1})" if twin else row.sample
        # The name that samples without a known group have as their group in a plan.
        group = row.group or (f"sample {row.sample}" if has_twins else None)
        numbered.append(replace(row, sample=name, repeat=repeat, group=group))
        seen[row.sample] += 1
    return numbered


def by_arm(rows: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    """Return the rows of each arm."""
    arms: dict[str, list[Row]] = {}
    for arm, row in rows:
        arms.setdefault(arm, []).append(row)
    return arms
