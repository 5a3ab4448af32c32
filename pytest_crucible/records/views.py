"""Views: the tables, notes, charts and JSON of a report section, and tables to export."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.measures import State
from pytest_crucible.stats.interval import Interval

# 0: always shown. 1: on the terminal with -v. 2: with -vv. 3: in report files only. Files fold away what is above 0.
Verbosity = Literal[0, 1, 2, 3]


def experiment_name(nodeid: str) -> str:
    """Return the name of an experiment's function.

    >>> experiment_name("test_math.py::test_sums")
    'test_sums'
    """
    return nodeid.partition("::")[2]


def experiment_names(nodeids: Iterable[str]) -> dict[str, str]:
    """Return nodeid -> name of each experiment: that of its function, or the nodeid where several functions have it.

    >>> experiment_names(["test_a.py::test_sums", "test_b.py::test_sums", "test_b.py::test_claims"]).values()
    dict_values(['test_a.py::test_sums', 'test_b.py::test_sums', 'test_claims'])
    """
    names = {nodeid: experiment_name(nodeid) for nodeid in nodeids}
    counts = Counter(names.values())
    return {nodeid: name if counts[name] == 1 else nodeid for nodeid, name in names.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table. The first cell is the subject."""

    cells: tuple[str, ...]
    state: State | None = None
    """The verdict in this row, if it has one."""
    below: str = ""
    """A sentence below the row."""
    experiment: str = ""
    """Nodeid. A section leaves it empty: it is filled in when the tables of several experiments are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of finished cells, so that no number is formatted twice."""

    title: str
    """The caption in reports. The terminal shows the heads alone, so these must explain themselves, unless `is_titled`."""
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    numbers: tuple[str, ...] = ()
    """Heads of the columns that hold one number a cell: they are aligned to the right."""
    note: str = ""
    """A sentence below the table."""
    verbosity: Verbosity = 0
    is_titled: bool = False
    """Whether the terminal shows the title, and the table also with -q."""

    def is_number(self, column: int) -> bool:
        """Return whether a column holds single numbers; a column of intervals does not."""
        return self.heads[column] in self.numbers and not any(row.cells[column].endswith("]") for row in self.rows)

    def with_names(self) -> Table:
        """Return the same table with the experiment's name as its first column."""
        rows = (replace(row, cells=(experiment_name(row.experiment), *row.cells)) for row in self.rows)
        return replace(self, heads=("experiment", *self.heads), rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence that changes how the numbers are read. Reports put the experiment's name before it."""

    text: str
    details: tuple[str, ...] = ()
    """Further sentences, indented below it."""
    verbosity: Verbosity = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One line of a chart: an estimate on its interval."""

    label: str
    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Estimates below each other on one scale. Drawn where a format has pictures; the numbers belong into a table too."""

    title: str
    points: tuple[Point, ...]
    limits: tuple[float, ...] = ()
    """Values at which a line is drawn, such as 0 for "no difference"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line through points. It has a gap where a number is not finite."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Curves between 0 and 1 on one square, such as the ROC curves of two guards. Drawn where a format has pictures."""

    title: str
    across: str
    """What the horizontal axis shows."""
    up: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """Lines on axes that cover their points, such as the loss of trainings by step. Drawn where a format has pictures."""

    title: str
    """With the unit of the vertical axis."""
    across: str
    """What the horizontal axis shows."""
    lines: tuple[Curve, ...]
    note: str = ""
    """A sentence below the chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A bar on a lane of time."""

    lane: str
    label: str
    start: float
    """Seconds since the first bar of the picture began."""
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBars:
    """Bars over one scale of seconds, such as requests and waits. Drawn where a format has pictures; a table has the times."""

    title: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramNode:
    """A box of a diagram."""

    key: str
    label: str
    kind: str = ""
    """A word by which pages give boxes of one kind one style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramEdge:
    """An arrow from one box to another."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Boxes and arrows. Drawn where a format has pictures; the same facts belong into a table too."""

    title: str
    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPart:
    """A part of a text, with a mark beside it and a weight between -1 and 1 by which it is shaded."""

    text: str
    mark: str = ""
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedText:
    """A text whose parts are shaded, such as a prompt by what each part adds. Drawn where a format has pictures."""

    title: str
    parts: tuple[MarkedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A sample worth reading, and the reply to it."""

    sample: str
    reason: str
    """Why it is here, such as `exact_match = 0, baseline 1`."""
    text: str
    input: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence of the methods, with the keys of the publications that it cites (report/references.toml)."""

    text: str
    cites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that a section shows of one experiment."""

    title: str
    """The heading of the section."""
    tables: tuple[Table, ...] = ()
    notes: tuple[Note, ...] = ()
    charts: tuple[Chart, ...] = ()
    curves: tuple[Curves, ...] = ()
    lines: tuple[LineChart, ...] = ()
    time_bars: tuple[TimeBars, ...] = ()
    diagrams: tuple[Diagram, ...] = ()
    marked_texts: tuple[MarkedText, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    methods: tuple[Statement, ...] = ()
    is_first: bool = False
    """Whether its tables and notes stand before the verdicts."""
    document: Any = None
    """The JSON value under `sections` in JSON reports: scalars, lists, mappings, and records of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement that a section tests, with its p-value."""

    subject: str
    p_value: float | None
    """None if the data allow no test. The claim still counts in its family."""
    fails: bool = False
    """True: when the claim is proven, the session fails. It then joins the session's Holm family and gets a verdict.

    False: it is adjusted together with the other claims of its section only, and decides no verdict.
    """
    reason: str = ""
    """What is proven, as a sentence for the verdict."""
    p_adjusted: float | None = None
    """Filled in by the gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A fact by which an experiment did not measure what it claims to: it fails, and none of its verdicts is decided."""

    subject: str
    reason: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionOutcome:
    """The result of a section for one experiment."""

    result: Any = None
    claims: tuple[Claim, ...] = ()
    view: View | None = None
    """None until the claims are adjusted."""
    error: str = ""
    """The exception of a section that raised. Its view then shows this."""
    traceback: tuple[str, ...] = ()
    """The innermost lines of the traceback of a section that raised."""
    doubts: tuple[Doubt, ...] = ()
    """Why no verdict on the experiment is believed."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """Sentences that explain verdicts, by the verdict's subject."""
    hides_claims: bool = False
    """The section raised before its claims were known, and may have had some that fail the session: an error in the suite."""


# `json` is any JSON value: a text is unchanged in files without a JSON type, everything else becomes
# JSON.
ColumnKind = Literal["text", "integer", "number", "flag", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTable:
    """Rows are tuples in the order of the columns; unknown values are None."""

    columns: Mapping[str, ColumnKind]
    rows: Iterable[tuple[Any, ...]]


# Blanks, marks and controls before the sign do not help: spreadsheets skip them. With apostrophes, so that each text comes back.
_FORMULA = re.compile(r"'*[\s\x00-\x20\ufeff\u200b]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
# The columns that each table of `crucible export` has, and no file of another program.
_OF_EXPORTS = frozenset({"run", "experiment", "arm"})


def guard_cell(text: str) -> str:
    r"""Return a text that no spreadsheet takes for a formula.

    >>> guard_cell("=1+1"), guard_cell("\t@x"), guard_cell("'=1"), guard_cell("a=1"), guard_cell("'a'")
    ("'=1+1", "'\t@x", "''=1", 'a=1', "'a'")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguard_cell(cell: str) -> str:
    """Return the text of a cell that `guard_cell` wrote.

    >>> unguard_cell("'=1+1"), unguard_cell("''=1"), unguard_cell("'a'")
    ('=1+1', "'=1", "'a'")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def has_guarded_cells(columns: Collection[str]) -> bool:
    """Return True for the columns of an exported table: in other files an apostrophe is part of the text."""
    return _OF_EXPORTS.issubset(columns)
