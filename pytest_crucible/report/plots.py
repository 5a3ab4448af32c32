"""Figures for a paper, drawn by matplotlib (extra `plots`): the pictures of the HTML page, one a file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_crucible.records import Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.model import Chapter
from pytest_crucible.report.pictures import Forest, differences, levels

try:
    import matplotlib
    from matplotlib.figure import Figure
except ModuleNotFoundError as error:
    raise SpecError('figures need matplotlib, which is not installed: pip install "pytest-crucible[plots]"') from error

COLOURS = ("#2f6fb5", "#a4611b", "#6b4fa3", "#3c7d74")
LINES = ("-", "--", ":", "-.")
# Up to this many points, each is labelled with its number of samples. A choice: labels of more points are left out.
FEW = 16
# Width of a figure in inches. A choice: it fits between the margins of A4 and US letter pages.
_WIDTH = 6.0


def forest(run: Run, chapters: Sequence[Chapter]) -> Figure:
    """Plot differences with their intervals. Raises SpecError for a run that compared nothing."""
    return _forest(list(differences(run)), "compared nothing")


def estimates(run: Run, chapters: Sequence[Chapter]) -> Figure:
    """Plot every arm's means with their intervals."""
    return _forest(list(levels(run)), "measured nothing")


def distributions(run: Run, chapters: Sequence[Chapter]) -> Figure:
    """Plot histograms of the scores of each experiment's main metric."""
    measured = [chapter for chapter in chapters if chapter.metric is not None]
    figure, axes = _panels([chapter.name for chapter in measured], "measured nothing")
    for axis, chapter in zip(axes, measured, strict=True):
        arms = [np.asarray(values) for values in chapter.columns.scores[chapter.metric or ""]]
        finite = [values[np.isfinite(values)] for values in arms]
        edges = np.histogram_bin_edges(np.concatenate(finite), bins=24) if any(map(len, finite)) else 24
        for k, (name, values) in enumerate(zip(chapter.arms, finite, strict=True)):
            weights = np.full(len(values), 1 / max(1, len(values)))
            axis.hist(values, bins=edges, weights=weights, histtype="step", label=name, **_line(k))
        axis.set(xlabel=chapter.metric, ylabel="share of samples")
        axis.legend(frameon=False)
    return figure


def pairs(run: Run, chapters: Sequence[Chapter]) -> Figure:
    """Plot each sample's score by the candidate over that by the first baseline."""
    paired = [chapter for chapter in chapters if chapter.metric is not None and len(chapter.arms) > 1]
    figure, axes = _panels([chapter.name for chapter in paired], "compared nothing")
    for axis, chapter in zip(axes, paired, strict=True):
        scores = np.array(chapter.columns.scores[chapter.metric or ""][:2])
        (ours, theirs), counts = np.unique(scores[:, np.isfinite(scores).all(axis=0)], axis=1, return_counts=True)
        sizes = 8 + 600 * counts / counts.sum()
        axis.scatter(theirs, ours, s=sizes, alpha=0.5, color=COLOURS[0], linewidths=0)
        if len(counts) <= FEW:
            for x, y, count in zip(theirs, ours, counts, strict=True):
                axis.annotate(f"{count:,}", (x, y), xytext=(14, 8), textcoords="offset points", fontsize=9)
        axis.margins(0.15)
        axis.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
        axis.set(xlabel=f"{chapter.metric} of {chapter.arms[1]}", ylabel=chapter.arms[0])
    return figure


def latency(run: Run, chapters: Sequence[Chapter]) -> Figure:
    """Plot the share of replies that came within a time."""
    timed = [
        chapter
        for chapter in chapters
        if any(np.isfinite(arm).any() for arm in map(np.asarray, chapter.columns.latency_s))
    ]
    figure, axes = _panels([chapter.name for chapter in timed], "told no latency")
    for axis, chapter in zip(axes, timed, strict=True):
        for k, (name, values) in enumerate(zip(chapter.arms, chapter.columns.latency_s, strict=True)):
            finite = np.asarray(values)[np.isfinite(values)]
            if len(finite):
                axis.ecdf(finite, label=name, **_line(k))
        axis.set(xlabel="seconds", ylabel="share of answers")
        axis.legend(frameon=False)
    return figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of a kind."""
    file = io.BytesIO()
    # Without a fixed salt and without dates, two files of one run would differ.
    with matplotlib.rc_context({"svg.hashsalt": "crucible", "svg.fonttype": "none", "pdf.fonttype": 42}):
        metadata = {"Date": None} if kind == "svg" else {"CreationDate": None, "ModDate": None}
        figure.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()


def _forest(forests: Sequence[Forest], why_not: str) -> Figure:
    figure, axes = _panels([plot.title for plot in forests], why_not, heights=[len(plot.marks) for plot in forests])
    for axis, plot in zip(axes, forests, strict=True):
        for at in {limit for mark in plot.marks for limit in mark.limits}:
            axis.axvline(at, color="0.6", linewidth=0.8)
        for k, mark in enumerate(plot.marks):
            if mark.value is None:
                continue
            ends = (mark.interval.low, mark.interval.high) if mark.interval else (mark.value, mark.value)
            low, high = (
                end if math.isfinite(end) else side
                for end, side in zip(ends, (plot.axis.low, plot.axis.high), strict=True)
            )
            axis.plot([low, high], [k, k], color=COLOURS[0], linewidth=1.4)
            axis.plot([mark.value], [k], "o", color=COLOURS[0], markersize=5)
        axis.set_yticks(range(len(plot.marks)), [_plain(f"{mark.label}\n{mark.text}") for mark in plot.marks])
        axis.set_ylim(len(plot.marks) - 0.5, -0.5)
        # Some room at both ends, so that the frame does not hide points at an end of the scale.
        room = 0.03 * (plot.axis.high - plot.axis.low)
        axis.set_xlim(plot.axis.low - room, plot.axis.high + room)
    return figure


def _panels(titles: Sequence[str], why_not: str, heights: Sequence[int] | None = None) -> tuple[Figure, Sequence[Any]]:
    if not titles:
        raise SpecError(f"there is nothing to draw: the run {why_not}")
    rows = [0.9 + 0.55 * height for height in heights] if heights else [3.0] * len(titles)
    figure = Figure(figsize=(_WIDTH, sum(rows)), layout="constrained")
    axes = figure.subplots(len(titles), 1, squeeze=False, height_ratios=rows)[:, 0].tolist()
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(_plain(title), fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, axes


def _line(k: int) -> dict[str, Any]:
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": LINES[k % len(LINES)], "linewidth": 1.4}


def _plain(text: str) -> str:
    """Return a text in which dollar signs do not start mathematics."""
    return text.replace("$", "\\$")
