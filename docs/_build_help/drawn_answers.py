"""Figures of single answers, and of what a number of samples can answer."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_crucible import stats
from pytest_crucible.records import Interval


def reading_a_comparison(figure: Figure) -> None:
    """Two panels on one scale. Left, the intervals of the arms, 0.61 to 0.74 and 0.64 to 0.77, overlap widely. Right, the
    interval of their difference, from -0.01 to 0.07, is about half as long and includes 0."""
    agreed = [1] * 132 + [0] * 54
    arms = {"control": agreed + [1] * 4 + [0] * 10, "treatment": agreed + [0] * 4 + [1] * 10}
    compared = stats.compare(arms["control"], arms["treatment"])
    left, right = figure.subplots(1, 2)
    for row, (arm, values) in enumerate(arms.items()):
        seen = stats.estimate(values)
        _whisker(left, row, seen.estimate, seen.interval, f"C{row}")
        left.text(seen.estimate, row + 0.15, arm, ha="center")
    _whisker(right, 0.5, compared.estimate, compared.interval, "C2")
    right.text(compared.estimate, 0.65, "treatment - control", ha="center")
    right.axvline(0, color="C3", linestyle="--")
    for axes, label, ends in ((left, "rate", (0.58, 0.80)), (right, "difference of the rates", (-0.11, 0.11))):
        axes.set(xlabel=label, xlim=ends, ylim=(-0.5, 1.6), yticks=[])
        axes.spines["left"].set_visible(False)


def _whisker(axes: Axes, row: float, estimate: float | None, interval: Interval | None, colour: str) -> None:
    assert interval is not None
    axes.plot([interval.low, interval.high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
    axes.plot([estimate], [row], "o", color=colour, markersize=7)
