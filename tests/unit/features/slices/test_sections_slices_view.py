"""Groups as a table: as many cells as heads, also where too few answered."""

from __future__ import annotations

import dataclasses

from pytest_crucible.features.slices import section
from pytest_crucible.features.slices.section import Slice, SlicedMetric, Slices
from pytest_crucible.stats.interval import Interval

SPAN = Interval(low=0.25, high=0.75, level=0.95, method="wilson")
WHOLE = Slice(name="a", n=12, lost=1, value=0.5, interval=SPAN, pairs=11, difference=-0.25, difference_interval=SPAN)
EMPTY = Slice(name="b", n=0, lost=12, value=None, interval=None, pairs=None, difference=None, difference_interval=None)
BOTH = SlicedMetric(field="group", metric="exact", arms=("v2", "v1"), slices=(WHOLE, EMPTY))


def test_a_group_without_replies_is_unknown():
    [table] = section.view(Slices(fields=(BOTH,)), ()).tables

    assert table.heads == ("group", "exact of v2", "n", "lost", "v2 vs v1", "pairs")
    assert [row.cells for row in table.rows] == [
        ("a", "0.500 [0.250, 0.750]", "12", "1", "-0.250 [+0.250, +0.750]", "11"),
        ("b", "unknown", "0", "12", "unknown", "-"),
    ]
    assert table.note == "Intervals are not adjusted for looking at many slices."


def test_without_a_baseline_there_is_no_difference():
    [table] = section.view(Slices(fields=(dataclasses.replace(BOTH, arms=("v2",)),)), ()).tables

    assert [len(row.cells) for row in table.rows] == [4, 4]


def test_the_document_has_every_group():
    first, second = section.view(Slices(fields=(BOTH,)), ()).document

    assert first == {
        "field": "group", "metric": "exact", "slice": "a", "n": 12, "lost": 1, "value": 0.5, "low": 0.25, "high": 0.75, "pairs": 11,
        "difference": -0.25, "difference_low": 0.25, "difference_high": 0.75,
    }  # fmt: skip
    assert (second["slice"], second["value"], second["low"], second["difference_high"]) == ("b", None, None, None)
