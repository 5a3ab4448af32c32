"""Slice by slice: means and differences, and their table and document."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.features.slices import section
from pytest_crucible.features.slices.section import Slice, SlicedMetric, Slices
from pytest_crucible.records import MetricFacts
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.stats.interval import Interval


def make_scores(values) -> Scores:
    array = np.array(values, dtype=float)
    no = np.zeros(len(array), dtype=bool)
    return Scores(array, array, array, np.isnan(array), no)


FACTS = {"right": MetricFacts(name="right", kind="binary", low=0.0, high=1.0)}
PLAN = SimpleNamespace(contrasts=(), targets=(), arms=(SimpleNamespace(name="v2"), SimpleNamespace(name="v1")))
GROUPS = ["a", "b", "a", "b", "a", "b", "a", "b"]


def cut(ours, theirs=None, groups=GROUPS, facts=FACTS):
    scores = {"right": (make_scores(ours),) if theirs is None else (make_scores(ours), make_scores(theirs))}
    inputs = SectionInputs(
        plan=PLAN, answers=(), groups=groups, finished=True, alpha=0.05, facts=facts, scores=scores, clusters=None,
        stored=NoStoredDetails(),
    )  # fmt: skip
    result = section.compute(inputs)
    return () if result is None else result.fields[0].slices


def test_each_group_is_estimated_and_compared_as_if_it_were_alone():
    ours, theirs = [1, 0, 1, 0, 1, 1, 0, np.nan], [1, 1, 0, 1, 0, 1, 0, 1]

    worse, better = cut(ours, theirs)

    assert (worse.name, worse.n, worse.pairs, better.name, better.n, better.pairs) == ("b", 3, 3, "a", 4, 4)
    assert (worse.lost, better.lost) == (1, 0)
    alone = stats.compare([1, 1, 1, 0], [1, 0, 0, 0], kind="binary", bounds=(0, 1))
    assert (better.difference, better.difference_interval) == (alone.estimate, alone.interval)
    assert better.value == 0.75


def test_where_lower_is_better_a_gain_is_still_positive():
    lower = {"right": MetricFacts(name="right", kind="binary", direction="lower", low=0.0, high=1.0)}

    assert {entry.name: entry.difference for entry in cut([0] * 8, [1] * 8, facts=lower)} == {"a": 1.0, "b": 1.0}


def test_without_a_baseline_there_are_only_means():
    assert [(entry.name, entry.value, entry.difference) for entry in cut([1, 0] * 4)] == [
        ("a", 1.0, None),
        ("b", 0.0, None),
    ]


def test_groups_that_say_nothing_are_left_out():
    assert cut([1] * 8, groups=[None] * 8) == ()
    assert cut([1] * 8, groups=["one"] * 8) == ()
    assert cut([1] * 8, groups=list("abcdefgh")) == ()


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
    [table] = section.view(Slices(fields=(replace(BOTH, arms=("v2",)),)), ()).tables

    assert [len(row.cells) for row in table.rows] == [4, 4]


def test_the_document_has_every_group():
    first, second = section.view(Slices(fields=(BOTH,)), ()).document

    assert first == {
        "field": "group", "metric": "exact", "slice": "a", "n": 12, "lost": 1, "value": 0.5, "low": 0.25, "high": 0.75, "pairs": 11,
        "difference": -0.25, "difference_low": 0.25, "difference_high": 0.75,
    }  # fmt: skip
    assert (second["slice"], second["value"], second["low"], second["difference_high"]) == ("b", None, None, None)
