"""Files of results: what is read of one, its arms with the scores of each sample, and cells as scores."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol, overload

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical, parse

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Exactly one of `archive`, `document` and `rows` is there."""

    path: Path
    sha256: str
    archive: Any = None
    """A ZipFile."""
    document: Any = None
    rows: Sequence[tuple[int, Mapping[str, Any]]] | None = None
    """(line, row)."""

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Rows of a table, or the objects of a JSON list; empty for anything else."""
        if self.rows is not None:
            return _Records(self.rows)
        is_list = isinstance(self.document, list) and all(isinstance(row, dict) for row in self.document)
        return self.document if is_list else ()

    @property
    def first(self) -> Mapping[str, Any]:
        """The first record, or the document where that is an object; empty for anything else."""
        if isinstance(self.document, dict):
            return self.document
        return self.rows[0][1] if self.rows else next(iter(self.records), {})

    def member(self, name: str) -> Any:
        """Return a JSON file of the archive. Raises SpecError for one that is damaged or packed in a way that is not known."""
        assert self.archive is not None
        try:
            return parse(json.loads, self.archive.read(name))
        except Exception as error:
            # zlib, zstd and zipfile each have their own
            raise SpecError(f"{self.path}: {name} in it cannot be read ({error}): write the log again") from error


class _Records(Sequence[Record]):
    """Rows without their numbers. A list of them would have all rows of a large file in memory."""

    def __init__(self, rows: Sequence[tuple[int, Record]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __iter__(self) -> Iterator[Record]:
        return (row for _, row in self._rows)

    @overload
    def __getitem__(self, at: int) -> Record: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Record]: ...

    def __getitem__(self, at: int | slice) -> Record | Sequence[Record]:
        return [row for _, row in self._rows[at]] if isinstance(at, slice) else self._rows[at][1]


class NoSampleScoresError(SpecError):
    """A file of results without scores of single samples. In a directory, the other files are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One of several requests to the model for a sample, such as those of an agent."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    reply: Reply | None = None


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
    prompt: Any = None
    """The text or the messages of the first request, as they were sent; None where the file does not have them."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The generation settings of the request: temperature, max_tokens, number of examples, and the like."""
    prompt_sha256: str = ""
    """The hash of a prompt that is the sample's input as a model sees it; empty where other fields are its input."""
    calls: Sequence[Call] = ()
    """All requests in the order of sending, where there are several: the first is that of `prompt` and `parameters`."""


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
    weights: Mapping[str, str] = field(default_factory=dict)
    """The model that the file names, as an adapter's settings name it: `model`, `checkpoint`. Empty where it names none."""
    template: str = ""
    """The chat template of the prompts: only prompts of one template can be equal."""
    has_uneven_repeats: bool = False
    """Samples have as many repeats as they have rows; otherwise each planned repeat without a row is lost."""
    one_claim: Mapping[str, str] = field(default_factory=dict)
    """Metric -> another one, which it repeats: where their values are equal, only the other is compared by default."""
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
    weights: Mapping[str, str] | None = None,
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
        weights=weights or {},
    )
    return ParsedFile(version=version, results=[results], notes=notes)


def split_values(values: Mapping[str, Value | None], why: str) -> dict[str, Any]:
    """Return `scores` and `lost` of a row: a value of None is lost, for this reason."""
    scores = {name: value for name, value in values.items() if value is not None}
    return {"scores": scores, "lost": dict.fromkeys((name for name in values if name not in scores), why)}


def number_repeats(rows: Sequence[Row], declared: int = 0) -> list[Row]:
    """Number the repeats of a harness that does not: the second row of a sample is its second repeat.

    `declared` is the number of repeats that the file records; 0 where it does not. Without it, repeats are what the numbers of
    rows of all samples have in common: no row shows that another one is missing. A sample with more rows than that is in the
    dataset twice: its further rows are a sample `NAME (2)`, in one group with the first, because two replies to one input must
    not count as independent.
    """
    counts = Counter(row.sample for row in rows)
    repeats = declared or math.gcd(*counts.values()) or 1
    has_twins = max(counts.values(), default=0) > repeats
    counts_so_far: Counter[str] = Counter()
    numbered = []
    for row in rows:
        twin, repeat = divmod(counts_so_far[row.sample], repeats)
        name = f"{row.sample} ({twin + 1})" if twin else row.sample
        # The name that samples without a known group have as their group in a plan.
        group = row.group or (f"sample {row.sample}" if has_twins else None)
        numbered.append(replace(row, sample=name, repeat=repeat, group=group))
        counts_so_far[row.sample] += 1
    return numbered


def by_arm(rows: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    """Return the rows of each arm."""
    arms: dict[str, list[Row]] = {}
    for arm, row in rows:
        arms.setdefault(arm, []).append(row)
    return arms


_WORDS = {"true": True, "false": False, "yes": True, "no": False, "pass": True, "fail": False}
# Spellings of a missing value by pandas, R, JSON and spreadsheets.
_NOTHING = frozenset({"", "nan", "none", "null", "n/a", "na", "-"})
_LONGEST = len("infinity")


def number(value: Any) -> bool | float | None:
    """Return a cell's value as a number; None for other text, NaN for an empty cell and beyond all floats.

    >>> number("True"), number("0.5"), number("a reply"), number(""), number(10**400)
    (True, 0.5, None, nan, nan)
    """
    if isinstance(value, str):
        word = value.strip()
        # Most texts are longer than all words below, and reading them as a number takes longer than all else.
        if len(word) > _LONGEST and word[0].isalpha():
            return None
        word = word.lower()
    elif isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) or abs(value) <= sys.float_info.max else math.nan
    else:
        word = "" if value is None else "text"
    if word in _NOTHING:
        return math.nan
    if word in _WORDS:
        return _WORDS[word]
    try:
        parsed = float(word)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else math.nan


def cell_value(cell: Any) -> Value | None:
    """Return a cell's value as a number, or else as text; None for an empty cell."""
    parsed = number(cell)
    if parsed is None:
        return str(cell)
    return None if math.isnan(parsed) else parsed


def amount(cell: Any) -> float | None:
    """Return a cell's number; None for text and an empty cell."""
    value = number(cell)
    return None if value is None or math.isnan(value) else float(value)


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else canonical(value)


def mostly_numbers(cells: Iterable[Any]) -> bool:
    """Return whether more cells are numbers than text: the text of the others, such as `ERROR`, is then a lost value.

    >>> mostly_numbers([1, "", "ERROR", 0.5]), mostly_numbers(["four", "5", "six"]), mostly_numbers([""])
    (True, False, False)
    """
    values = [*map(number, cells)]
    texts = values.count(None)
    return sum(value is not None and not math.isnan(value) for value in values) > texts


def not_a_number(cell: Any) -> str:
    """Return why the value of a cell with text is lost."""
    return f"the value {str(cell)!r:.60} is not a number"
