"""Charts of one experiment's samples: the distribution of scores, paired scores, and latencies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pytest_crucible.report.page.svg import Axis, axis, element, label, svg_text

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
    up = axis([0.0, *(float(share.max()) for share in shares)], most=4)
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
    across, up = axis([0.0, *(float(values[-1]) for _, values in finite)]), axis([0.0, 1.0])
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
    """Return the picture in its axes, with their names."""
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
