"""Forest plots: estimates or differences with their intervals on one scale, beside their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree import ElementTree

from pytest_crucible.records import Chart, Comparison, Row, Run, State, experiment_name
from pytest_crucible.report.align_numbers import align_estimates
from pytest_crucible.report.page.svg import Axis, axis, element, label, svg_text
from pytest_crucible.report.tables import comparisons
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval

# Pixels of one strip. Its width is that of the page, so positions are percentages.
HEIGHT = 28
RATIO = " (ratio to the baseline)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One line of a forest plot."""

    name: str
    shown: str
    """The number as the tables have it."""
    value: float | None
    interval: Interval | None
    state: State | None = None
    limits: tuple[float, ...] = ()
    """Values at which a verdict changes: no difference, a margin, a relevant difference, a target."""
    experiment: str = ""
    """The experiment that the line belongs to; empty if there is only one."""

    @property
    def label(self) -> str:
        return f"{self.experiment}: {self.name}" if self.experiment else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A forest plot: estimates with their intervals, one a line, on one scale."""

    title: str
    marks: tuple[Mark, ...]
    axis: Axis

    def strips(self) -> Iterator[tuple[Mark, str, str]]:
        """Return each line with its picture, and with its number, aligned at decimal points."""
        for mark, cell in zip(self.marks, align_estimates([mark.shown for mark in self.marks]), strict=True):
            yield mark, svg_text(_strip(mark, self.axis)), " ".join(cell)

    def ticks(self) -> str:
        """Return the scale below the lines."""
        parts = [
            element("text", label(tick), x=_percent(self.axis.share(tick)), y=14, text_anchor="middle", class_="tick")
            for tick in self.axis.ticks
        ]
        return svg_text(element("svg", *parts, width="100%", height=18, class_="strip", aria_hidden="true"))


def differences(run: Run) -> Iterator[Forest]:
    """Return all comparisons, those by one metric on one scale."""
    many = len(run.experiments) > 1
    pairs = [comparison for analysis in run.experiments for comparison in analysis.comparisons]
    metric_marks = [
        (comparison.contrast.expression + (RATIO if comparison.ratio else ""), _difference(row, comparison, many))
        for row, comparison in zip(comparisons(run).rows, pairs, strict=True)
    ]
    differences = [(name, mark) for name, mark in metric_marks if not name.endswith(RATIO)]
    ratios = [(name, mark) for name, mark in metric_marks if name.endswith(RATIO)]
    yield from _forests(differences, always=0.0)
    yield from _forests(ratios, always=1.0)


def levels(run: Run) -> Iterator[Forest]:
    """Return every arm's mean, those of one metric on one scale, with the targets that are about it."""
    many = len(run.experiments) > 1
    metric_marks = [
        (level.metric, Mark(
            name=level.arm,
            experiment=experiment_name(analysis.plan.nodeid) if many else "",
            shown=with_interval(level.value, level.interval),
            value=level.value,
            interval=level.interval,
            limits=tuple(
                result.target.value
                for result in analysis.targets
                if result.estimate.arm == level.arm and (result.target.metric, result.estimate.statistic) == (level.metric, "mean")
            ),
        ))
        for analysis in run.experiments
        for level in analysis.estimates
    ]  # fmt: skip
    yield from _forests(metric_marks)


def chart_forest(chart: Chart) -> Forest:
    """Return the forest plot of a section's chart."""
    marks = tuple(
        Mark(
            name=point.label,
            shown=with_interval(point.value, point.interval),
            value=point.value,
            interval=point.interval,
            limits=chart.limits,
        )
        for point in chart.points
    )
    return Forest(title=chart.title, marks=marks, axis=axis([value for mark in marks for value in _values(mark)]))


def _difference(row: Row, comparison: Comparison, many: bool) -> Mark:
    name = row.cells[0].removeprefix(f"{comparison.contrast.expression}: ")
    limit, ratio = comparison.contrast.limit, comparison.ratio
    limits = (0.0,) if limit is None else (0.0, -limit, limit)
    return Mark(
        name=name,
        experiment=experiment_name(row.experiment) if many else "",
        shown=row.cells[1],
        value=ratio.value if ratio else comparison.difference,
        interval=ratio.interval if ratio else comparison.interval,
        state=row.state,
        limits=tuple(map(ratio.of, limits)) if ratio else limits,
    )


def _forests(metric_marks: Sequence[tuple[str, Mark]], always: float | None = None) -> Iterator[Forest]:
    for metric, pairs in groupby(sorted(metric_marks, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        marks = tuple(mark for _, mark in pairs)
        values = [value for mark in marks for value in _values(mark)] + ([] if always is None else [always])
        if any(mark.value is not None for mark in marks):
            yield Forest(title=metric, marks=marks, axis=axis(values))


def _values(mark: Mark) -> Iterator[float]:
    yield from mark.limits
    if mark.value is not None:
        yield mark.value
    if mark.interval is not None:
        yield from (mark.interval.low, mark.interval.high)


def _strip(mark: Mark, on: Axis) -> ElementTree.Element:
    middle = HEIGHT / 2
    parts = [
        element("line", x1=_percent(on.share(at)), x2=_percent(on.share(at)), y1=0, y2=HEIGHT, class_=kind)
        for kind, places in (("grid", on.ticks), ("limit", mark.limits))
        for at in places
    ]
    if mark.interval is not None:
        ends = [on.share(end) for end in (mark.interval.low, mark.interval.high)]
        whole = dict(zip(("x1", "x2"), map(_percent, ends), strict=True))
        parts.append(element("line", y1=middle, y2=middle, class_="interval", **whole))
        for end, share in zip((mark.interval.low, mark.interval.high), ends, strict=True):
            # An open end has no stop.
            if math.isfinite(end):
                at = _percent(share)
                parts.append(element("line", x1=at, x2=at, y1=middle - 5, y2=middle + 5, class_="interval"))
    if mark.value is not None and math.isfinite(mark.value):
        parts.append(element("circle", cx=_percent(on.share(mark.value)), cy=middle, r=5, class_="point"))
    title = element("title", f"{mark.label}: {mark.shown}")
    size = {"width": "100%", "height": HEIGHT}
    return element("svg", title, *parts, **size, class_=f"strip {mark.state or ''}".strip(), role="img")


def _percent(share: float) -> str:
    """Return a position across a strip, with margins for points at the ends of the scale."""
    return f"{4 + share * 92:.2f}%"
