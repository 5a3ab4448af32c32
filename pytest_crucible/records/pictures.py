"""Pictures of a report section besides charts: curves, lines, bars of time, diagrams and shaded texts."""

from __future__ import annotations

from dataclasses import dataclass


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
