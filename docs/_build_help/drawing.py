"""Shared parts of the figures: how many runs they simulate, curves that differ without colour, ticks, intervals."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from pytest_crucible.stats.interval import Interval

LINES = ("o-", "s--", "^:", "v-.")
# Set where pages are only checked: the simulations take more than half of a build.
DRAFT = bool(os.environ.get("DRAFT_FIGURES"))


def choose_runs(published: int) -> int:
    """Return how many runs a figure simulates: those of the published page, or a tenth with DRAFT_FIGURES=1."""
    return published // 10 if DRAFT else published


def curves(axes: Axes, across: Sequence[float], columns: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Draw one labelled curve per column; the rows belong to the positions across."""
    for name, line, column in zip(names, LINES, np.array(columns).T, strict=False):
        axes.plot(across, column, line, label=name)


def nominal(axes: Axes, rate: float) -> None:
    """Draw a line at the nominal rate."""
    axes.axhline(rate, color="grey", linewidth=0.9, label=f"nominal {rate:g}")


def ticks(axes: Axes, places: Sequence[float] | npt.NDArray[np.float64]) -> None:
    """Put these numbers, and no others, under the axis."""
    axes.set_xticks(places, [f"{place:,g}" for place in places])
    axes.minorticks_off()


def whisker(axes: Axes, row: float, estimate: float | None, interval: Interval | None, colour: str) -> None:
    """Draw a horizontal interval with its estimate."""
    assert interval is not None
    axes.plot([interval.low, interval.high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
    axes.plot([estimate], [row], "o", color=colour, markersize=7)
