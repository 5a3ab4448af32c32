"""The pictures of the page as SVG: forests, distributions, pairs, latencies and curves, with round ticks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Chart, Comparison, Row, Run, State, experiment_name
from pytest_crucible.records.views import Curve, Curves, LineChart
from pytest_crucible.report.printable import printable
from pytest_crucible.report.verdicts import align_estimates, comparisons
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval


def element(tag: str, *inside: ElementTree.Element | str, **attributes: object) -> ElementTree.Element:
    """Return an element; `class_` is written `class`, `stroke_width` is written `stroke-width`. Texts are escaped when drawn."""
    named = {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()}
    node = ElementTree.Element(tag, named)
    for child in inside:
        if isinstance(child, str):
            # XML has no control characters, not even escaped ones.
            node.text = printable(child, 200)
        else:
            node.append(child)
    return node


def svg_text(root: ElementTree.Element) -> str:
    """Return the picture as text for a page."""
    return ElementTree.tostring(root, encoding="unicode")


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end or below, 1 at the high end or above."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def axis(values: Sequence[float], *, most: int = 6) -> Axis:
    """Return a scale that covers all finite values, with about `most` round ticks.

    >>> axis([0.012, 0.93]).ticks, axis([-0.19, 0.02]).ticks
    ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05))
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    step = _round_step((high - low) / (most - 1))
    # The small number keeps an end that is a tick already from getting one tick more by rounding.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(k * step, 12) for k in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def axis_from_zero(values: Sequence[float], *, most: int = 6) -> Axis:
    """Return a scale from 0 that covers what is not negative, such as lengths of time, which may all be 0.

    >>> axis_from_zero([0.0, 0.0]).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    return axis([0.0, max(values, default=0.0) or 1.0], most=most)


def label(tick: float) -> str:
    """Return a tick as it is written at its axis."""
    return f"{tick:g}".replace("-", "\u2212")


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, the next one up.

    >>> _round_step(0.13), _round_step(3)
    (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(round(m * power, 12) for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 22, 10, 34
# Bars of a histogram. A choice: enough to show two peaks, and few enough for some hundred samples.
BINS = 24
# Above this many points a scatter is drawn in squares. Both are larger where there are more samples.
POINTS = 1200
CELLS = 28


def distribution(name: str, arms: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return histograms of the arms' scores on one scale, as outlines: the share of samples in each of its bins."""
    finite = [np.asarray(values, dtype=float) for _, values in arms]
    finite = [values[np.isfinite(values)] for values in finite]
    if not sum(map(len, finite)):
        return ""
    across = axis(np.concatenate(finite).tolist())
    edges = np.linspace(across.low, across.high, BINS + 1)
    shares = [np.histogram(values, edges)[0] / max(1, len(values)) for values in finite]
    up = axis_from_zero([float(share.max()) for share in shares], most=4)
    x, y = _scales(across, up)
    outlines = [
        element("path", d=_steps(edges, share, x, y), class_=f"arm arm{k} outline")
        for k, share in enumerate(shares)
    ]  # fmt: skip
    return _frame(f"Distribution of {name}", across, up, name, "share of samples", outlines)


def pairs(name: str, candidate: tuple[str, Sequence[float]], baseline: tuple[str, Sequence[float]]) -> str:
    """Return a picture of the samples with both scores: the baseline's across, the candidate's up. Ties are on the diagonal."""
    theirs, ours = np.asarray(baseline[1], dtype=float), np.asarray(candidate[1], dtype=float)
    both = np.isfinite(theirs) & np.isfinite(ours)
    if not both.any():
        return ""
    on = _with_room(axis([*theirs[both].tolist(), *ours[both].tolist()]))
    x, y = _scales(on, on)
    equal = element("line", x1=x(on.low), y1=y(on.low), x2=x(on.high), y2=y(on.high), class_="limit")
    dots = _dots(theirs[both], ours[both], on, x, y)
    title = f"{name}, sample by sample: {candidate[0]} against {baseline[0]}"
    return _frame(title, on, on, f"{name} of {baseline[0]}", candidate[0], [equal, *dots])


def waiting(arms: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return a picture of the share of replies that came within a time, for each arm."""
    finite = [(k, np.sort(np.asarray(values)[np.isfinite(values)])) for k, (_, values) in enumerate(arms)]
    finite = [(k, values) for k, values in finite if len(values)]
    if not finite:
        return ""
    across, up = axis_from_zero([float(values[-1]) for _, values in finite]), axis([0.0, 1.0])
    x, y = _scales(across, up)
    shares = np.linspace(0.0, 1.0, 101)
    lines = [
        element(
            "polyline",
            points=" ".join(
                f"{x(float(at)):.1f},{y(float(share)):.1f}"
                for share, at in zip(shares, np.quantile(values, shares), strict=True)
            ),
            class_=f"arm arm{k} outline",
        )
        for k, values in finite
    ]
    return _frame("Share of answers within a time", across, up, "seconds", "share of answers", lines)


def draw_lines(chart: LineChart) -> str:
    """Return a picture of lines on axes that cover their points; empty without a finite point."""
    points = [point for line in chart.lines for point in line.points if all(map(math.isfinite, point))]
    if not points:
        return ""
    across, up = (axis([point[k] for point in points], most=5) for k in (0, 1))
    x, y = _scales(across, up)
    drawn = [
        part for k, line in enumerate(chart.lines) for part in _line(line, x, y, f"arm arm{k % ARM_STYLES} outline")
    ]
    return _frame(chart.title, across, up, chart.across, "", drawn)


# Styles of lines in page.css.
ARM_STYLES = 4


def _line(
    line: Curve, x: Callable[[float], float], y: Callable[[float], float], style: str
) -> Iterator[ElementTree.Element]:
    """Yield the parts of a line between its gaps. A point alone is a dot."""
    for is_drawn, part in groupby(line.points, key=lambda point: all(map(math.isfinite, point))):
        places = [f"{x(across):.1f},{y(up):.1f}" for across, up in part] if is_drawn else []
        if len(places) == 1:
            place_x, place_y = places[0].split(",")
            yield element("circle", element("title", line.label), cx=place_x, cy=place_y, r=2, class_="dot")
        elif places:
            yield element("polyline", element("title", line.label), points=" ".join(places), class_=style)


def _with_room(on: Axis) -> Axis:
    """Return a scale on which a point at either end is drawn whole, beside the ticks and not over them."""
    room = 0.07 * (on.high - on.low)
    return Axis(on.low - room, on.high + room, on.ticks)


def _dots(theirs: Any, ours: Any, on: Axis, x: Callable[[float], float], y: Callable[[float], float]) -> list[Any]:
    alike = Counter(zip(theirs.tolist(), ours.tolist(), strict=True))
    if len(alike) <= POINTS:
        return [
            element(
                "circle", cx=f"{x(a):.1f}", cy=f"{y(b):.1f}", r=f"{min(12.0, 1.6 + math.sqrt(count)):.1f}", class_="dot"
            )
            for (a, b), count in sorted(alike.items())
        ]
    cell = (on.high - on.low) / CELLS
    places = ((np.stack([theirs, ours]) - on.low) / cell).astype(int).clip(0, CELLS - 1)
    counts = Counter(zip(*places.tolist(), strict=True))
    most = max(counts.values())
    wide, high = (WIDTH - LEFT - RIGHT) / CELLS, (HEIGHT - TOP - BOTTOM) / CELLS
    return [
        element(
            "rect",
            x=f"{x(on.low + (a + 0.5) * cell) - wide * side / 2:.1f}",
            y=f"{y(on.low + (b + 0.5) * cell) - high * side / 2:.1f}",
            width=f"{wide * side:.1f}",
            height=f"{high * side:.1f}",
            class_="dot",
        )
        for (a, b), count in sorted(counts.items())
        for side in [max(0.15, math.sqrt(count / most))]
    ]


def _steps(edges: Any, shares: Any, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    parts = [f"M{x(float(edges[0])):.1f},{y(0.0):.1f}"]
    for (left, right), share in zip(pairwise(edges), shares, strict=True):
        parts.append(f"L{x(float(left)):.1f},{y(float(share)):.1f}L{x(float(right)):.1f},{y(float(share)):.1f}")
    return "".join([*parts, f"L{x(float(edges[-1])):.1f},{y(0.0):.1f}Z"])


def _scales(across: Axis, up: Axis) -> tuple[Callable[[float], float], Callable[[float], float]]:
    return (
        lambda value: LEFT + across.share(value) * (WIDTH - LEFT - RIGHT),
        lambda value: HEIGHT - BOTTOM - up.share(value) * (HEIGHT - TOP - BOTTOM),
    )


def _frame(title: str, across: Axis, up: Axis, x_name: str, y_name: str, inside: Sequence[Any]) -> str:
    x, y = _scales(across, up)
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    grid = [element("line", x1=LEFT, x2=right, y1=f"{y(t):.1f}", y2=f"{y(t):.1f}", class_="grid") for t in up.ticks]
    texts = [
        *(element("text", label(t), x=f"{x(t):.1f}", y=floor + 14, text_anchor="middle", class_="tick") for t in across.ticks),
        *(element("text", label(t), x=LEFT - 5, y=f"{y(t) + 4:.1f}", text_anchor="end", class_="tick") for t in up.ticks),
        element("text", x_name, x=(LEFT + right) / 2, y=HEIGHT - 4, text_anchor="middle", class_="name"),
        element("text", y_name, x=0, y=0, transform=f"translate(11 {(TOP + floor) / 2}) rotate(-90)",
                text_anchor="middle", class_="name"),
    ]  # fmt: skip
    heading = element("title", title)
    return svg_text(
        element("svg", heading, *grid, *inside, *texts, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="picture", role="img")
    )


# Pixels of one strip. Its width is that of the page, so positions are percentages.
MARK_HEIGHT = 28
RATIO = " (ratio to the baseline)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One line of a forest plot."""

    name: str
    text: str
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
        for mark, cell in zip(self.marks, align_estimates([mark.text for mark in self.marks]), strict=True):
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
            text=with_interval(level.value, level.interval),
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
            text=with_interval(point.value, point.interval),
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
        text=row.cells[1],
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
    middle = MARK_HEIGHT / 2
    parts = [
        element("line", x1=_percent(on.share(at)), x2=_percent(on.share(at)), y1=0, y2=MARK_HEIGHT, class_=kind)
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
    title = element("title", f"{mark.label}: {mark.text}")
    size = {"width": "100%", "height": MARK_HEIGHT}
    return element("svg", title, *parts, **size, class_=f"strip {mark.state or ''}".strip(), role="img")


def _percent(share: float) -> str:
    """Return a position across a strip, with margins for points at the ends of the scale."""
    return f"{4 + share * 92:.2f}%"


# Pixels of the square, and of the space for its scales.
SIDE, CURVE_LEFT, BELOW, ABOVE = 260, 48, 40, 8
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# The first arm is a solid line, others are dashed: colours alone would not tell them apart in print.
_DASHES = ("", "6 3", "2 2", "8 3 2 3")


def draw_curves(curves: Curves) -> str:
    """Return the picture as text for a page."""
    parts = [
        element("rect", x=CURVE_LEFT, y=ABOVE, width=SIDE, height=SIDE, fill="none", stroke="currentColor", stroke_opacity=0.3),
        *(part for tick in _TICKS for part in _scale(tick)),
        element("text", curves.across, x=CURVE_LEFT + SIDE / 2, y=ABOVE + SIDE + 34, text_anchor="middle", class_="tick"),
        element(
            "text", curves.up, x=12, y=ABOVE + SIDE / 2, text_anchor="middle", class_="tick",
            transform=f"rotate(-90 12 {ABOVE + SIDE / 2:g})",
        ),
    ]  # fmt: skip
    for number, curve in enumerate(curves.curves):
        dash = _DASHES[number % len(_DASHES)]
        points = " ".join(f"{_across(x):.1f},{_up(y):.1f}" for x, y in curve.points)
        line = {"fill": "none", "stroke": "currentColor", "stroke_width": 1.5, "stroke_dasharray": dash or "none"}
        y = ABOVE + 14 + 18 * number
        parts += [
            element("polyline", element("title", curve.label), points=points, **line),
            element("line", x1=CURVE_LEFT + SIDE + 12, y1=y - 4, x2=CURVE_LEFT + SIDE + 40, y2=y - 4, **line),
            element("text", curve.label, x=CURVE_LEFT + SIDE + 46, y=y, class_="tick"),
        ]
    picture = element(
        "svg", *parts, width=CURVE_LEFT + SIDE + 220, height=ABOVE + SIDE + BELOW, role="img", aria_label=curves.title
    )
    return svg_text(picture)


def _scale(tick: float) -> list[ElementTree.Element]:
    return [
        element("text", label(tick), x=_across(tick), y=ABOVE + SIDE + 16, text_anchor="middle", class_="tick"),
        element("text", label(tick), x=CURVE_LEFT - 6, y=_up(tick) + 4, text_anchor="end", class_="tick"),
    ]


def _across(share: float) -> float:
    return CURVE_LEFT + SIDE * share


def _up(share: float) -> float:
    return ABOVE + SIDE * (1 - share)
