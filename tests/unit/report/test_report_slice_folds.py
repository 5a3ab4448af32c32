"""Comparisons by slice: worst first everywhere, and folded on the terminal."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.records import Verdict
from pytest_crucible.report.model import build_report
from pytest_crucible.report.sections import fold_slices
from pytest_crucible.report.terminal import summary

NODEID = "test_math.py::test_sums"
STATES = {4: "missed", 70: "missed", 50: "undecided"}


@pytest.fixture
def by_topic(run, analysis):
    """Return a function that makes a run of this many slices, after a comparison of all samples: slice 0 is the best."""

    def make(slices=75, proven=False):
        whole = analysis()
        (first,) = whole.comparisons
        of_slices = [
            dataclasses.replace(
                first,
                contrast=dataclasses.replace(
                    first.contrast, by=parse_fields("topic", "by"), slice=f"t{k:02}", slice_size=20
                ),
                difference=-k / 100,
            )
            for k in range(slices)
        ]
        verdicts = [
            Verdict(
                nodeid=NODEID,
                subject=each.contrast.subject(each.candidate),
                kind="comparison",
                state=STATES.get(k, "met"),
                proven=proven or k in STATES,
                reason="",
            )
            for k, each in enumerate(of_slices)
        ]
        whole_run = run(dataclasses.replace(whole, comparisons=(first, *of_slices)))
        return dataclasses.replace(whole_run, verdicts=(*whole_run.verdicts, *verdicts))

    return make


def shown_slices(run):
    return [each.contrast.slice for each in run.experiments[0].comparisons]


def texts(run, verbosity=0):
    return [line.text for line in summary(run, verbosity=verbosity, width=200)]


def test_the_worst_slices_are_shown_and_the_others_are_counted(by_topic):
    folded, (sentence,) = fold_slices(by_topic())

    assert shown_slices(folded) == ["", "t70", "t04", "t50", "t74", "t73", "t72"]
    assert sentence == "test_sums: exact by topic: v2 vs v1: 69 slices more: 69 met; -v shows all of them"
    printed = texts(by_topic())
    assert sentence in printed
    assert sum("exact by topic = " in line for line in printed) == 6


def test_verbose_shows_all_slices(by_topic):
    printed = texts(by_topic(), verbosity=1)

    assert len({line.split(" ")[4] for line in printed if line.startswith("exact by topic = ")}) == 75
    assert not any("slices more" in line for line in printed)


def test_a_few_slices_are_not_folded(by_topic):
    folded, sentences = fold_slices(by_topic(6))

    assert (len(shown_slices(folded)), sentences) == (7, ())


def test_quiet_counts_only_slices_that_are_not_met_or_not_proven(by_topic):
    assert "slices more" in texts(by_topic(), verbosity=-1)[-1]
    assert not any("slices more" in line for line in texts(by_topic(proven=True), verbosity=-1))


def test_reports_have_all_slices_from_the_worst_on(by_topic):
    rows = build_report(by_topic()).verdicts[1].rows

    assert [row.cells[0] for row in rows[:4]] == [
        "exact: v2 vs v1",
        "exact by topic = t70: v2 vs v1",
        "exact by topic = t04: v2 vs v1",
        "exact by topic = t50: v2 vs v1",
    ]
    assert len(rows) == 76
