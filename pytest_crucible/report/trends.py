"""A metric over runs as a table and a chart."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import Chart, Row, Table, TrendPoint
from pytest_crucible.records.views import Point
from pytest_crucible.stats.number_format import with_interval

SIGNS = {"proven": "<- changed, proven", "other samples": "<- other samples"}


def trend_title(metric: str, nodeid: str, points: Sequence[TrendPoint], level: float) -> str:
    """Return `accuracy of test_math.py::test_sums, 3 runs; the intervals hold together at 95 %`."""
    return f"{metric} of {nodeid}, {len(points)} runs; the intervals hold together at {level * 100:g} %"


def trend_table(title: str, points: Sequence[TrendPoint]) -> Table:
    """Return a row for each run."""
    rows = tuple(
        Row(cells=(
            point.run, point.started[:16].replace("T", " "), point.estimate.arm,
            with_interval(point.estimate.value, point.estimate.interval),
            f"{point.estimate.n:,}", f"{point.estimate.lost:,}", SIGNS.get(point.change, ""),
        ))
        for point in points
    )  # fmt: skip
    heads = ("run", "started", "arm", "estimate", "n", "lost", "")
    return Table(title=title, heads=heads, rows=rows, numbers=("n", "lost"))


def trend_chart(title: str, points: Sequence[TrendPoint]) -> Chart:
    """Return the estimates of the runs below each other."""
    marks = (Point(label=point.run, value=point.estimate.value, interval=point.estimate.interval) for point in points)
    return Chart(title=title, points=tuple(marks))
