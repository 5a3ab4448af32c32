"""Verdicts of a session that ended before its last stage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.gate.verdicts import leave_open
from pytest_crucible.records import Verdict

MET = Verdict(nodeid="t.py::t", subject="a >= 0.5", kind="target", state="met", proven=True, reason="bound")
MISSED = replace(MET, subject="b >= 0.5", state="missed")
UNPROVEN = replace(MISSED, proven=False)
BROKEN = replace(MET, subject="c >= 0.5", state="undecided", proven=False, suite_error=True)


@pytest.fixture
def analysis():
    inputs = analysis_inputs(arm(a=[True] * 5))
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


@pytest.fixture
def ended(analysis):
    return replace(analysis, ended="the session ended after stage smoke")


def test_without_an_early_end_verdicts_stay(analysis):
    assert list(leave_open(analysis, [MET, MISSED, UNPROVEN])) == [MET, MISSED, UNPROVEN]


def test_a_proven_miss_stays_and_everything_else_is_undecided(ended):
    verdicts = list(leave_open(ended, [MET, MISSED, UNPROVEN, BROKEN]))

    assert [(verdict.state, verdict.proven) for verdict in verdicts] == [
        ("undecided", False), ("missed", True), ("undecided", False), ("undecided", False)
    ]  # fmt: skip
    assert verdicts[0].reason == "the session ended after stage smoke"
    assert verdicts[3].suite_error


def test_what_was_out_of_reach_is_missed_and_nothing_is_proven_on_a_number_of_samples_that_scores_chose(ended):
    out = replace(ended, out_of_reach=("a >= 0.5",))

    assert [(entry.state, entry.proven) for entry in leave_open(out, [MET, MISSED])] == [
        ("missed", False), ("undecided", False)
    ]  # fmt: skip
