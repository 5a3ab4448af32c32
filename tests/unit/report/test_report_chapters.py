"""Groups as a table: as many cells as heads, also where too few answered."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_crucible.records import Interval, SampleColumns, Slice
from pytest_crucible.report.chapters import Chapter, slice_grid

SPAN = Interval(low=0.25, high=0.75, level=0.95, method="wilson")
WHOLE = Slice(
    metric="exact", group="a", n=12, value=0.5, interval=SPAN, pairs=11, difference=-0.25, difference_interval=SPAN
)
EMPTY = Slice(
    metric="exact", group="b", n=0, value=None, interval=None, pairs=None, difference=None, difference_interval=None
)


@pytest.fixture
def chapter(analysis):
    columns = SampleColumns(ids=(), groups=(), scores={}, latency_s=(), became=())
    return Chapter(
        analysis=analysis(), metric="exact", judged=("exact",), columns=columns, facts={}, clusters=None, slices=(WHOLE, EMPTY),
        read=lambda positions: (),
    )  # fmt: skip


def test_a_group_that_nobody_answered_is_unknown(chapter):
    grid = slice_grid(chapter)

    assert grid.heads == ("group", "exact of v2", "n", "v2 vs v1", "pairs")
    assert [row.cells for row in grid.rows] == [
        ("a", "0.500 [0.250, 0.750]", "12", "-0.250 [+0.250, +0.750]", "11"),
        ("b", "unknown", "0", "unknown", "-"),
    ]


def test_without_a_baseline_there_is_no_difference(chapter, analysis, plan):
    alone = dataclasses.replace(chapter, analysis=analysis(plan(arms=plan().arms[:1])))

    assert [(len(row.cells)) for row in slice_grid(alone).rows] == [3, 3]
