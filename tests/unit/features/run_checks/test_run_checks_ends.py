"""Replies that were cut or empty, and verdicts that come from them, whichever arm has them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.ends import check_ends, end_of, unit_ends

CUT = ["length"] * 6 + ["stop"] * 14
WHOLE = ["stop"] * 20


def finding(ours: list[str], theirs: list[str]):
    """Return the finding on arms whose replies are right where they are whole."""
    arms = [
        arm_columns(name, ["a"] * 20, finishes=finishes, parameters={"max_tokens": 9})
        for name, finishes in (("v2", ours), ("v1", theirs))
    ]
    scores = [
        SimpleNamespace(values=np.array([float(end == "stop") for end in finishes])) for finishes in (ours, theirs)
    ]
    inputs = check_inputs(*arms, scores={"ok": scores}, facts={"ok": SimpleNamespace(direction="higher")})
    inputs.plan.contrasts = (  # type: ignore[misc]  # the stand-in of a plan
        SimpleNamespace(
            metric="ok", statistic="mean", baseline="v1", subject=lambda candidate: f"ok: {candidate} vs v1"
        ),
    )
    return list(check_ends(inputs))


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (
            CUT,
            WHOLE,
            "30.0 of the 30.0 lost points are on 6 samples where only the reply of v2 was cut at max_tokens = 9",
        ),
        (
            CUT,
            [*WHOLE[:18], "content_filter", "content_filter"],
            "30.0 points are lost on 6 samples where only the reply of v2 was cut at max_tokens = 9, and 10.0 are gained on the "
            "others",
        ),
        (
            WHOLE,
            CUT,
            "30.0 of the 30.0 gained points are on 6 samples where only the reply of v1 was cut at max_tokens = 9",
        ),
    ],
)
def test_a_difference_that_comes_from_cut_replies_says_so_for_a_loss_and_for_a_gain(ours, theirs, sentence):
    (line,) = finding(ours, theirs)
    assert line.problem == f"ok: v2 vs v1: {sentence}"
    assert line.remarks == {"ok: v2 vs v1": sentence}


def test_arms_that_were_both_cut_almost_always_measure_the_limit():
    (line,) = finding(["length"] * 20, ["length"] * 20)
    assert line.problem == "; ".join(
        f"20 of 20 replies of {name} were cut at max_tokens = 9: verdicts are mostly about this limit"
        for name in ("v2", "v1")
    )


def test_a_few_cut_replies_of_both_arms_are_no_problem():
    (line,) = finding(CUT, CUT)
    assert (line.cells, line.problem) == (("6 cut", "6 cut"), "")


def test_an_arm_without_known_replies_has_no_count():
    arms = arm_columns("v2", ["a"], finishes=["length"]), arm_columns("v1", [])
    (line,) = check_ends(check_inputs(*arms))
    assert line.cells == ("1 cut", "")


def test_a_call_of_a_tool_is_not_empty():
    assert end_of("tool_calls", "") == ""


def calls_of_one_unit(*ends, returned=None):
    """Return an arm with one reply to one sample, after calls that ended so, with these texts."""
    columns = arm_columns("v2", [text for _, text in ends], finishes=[finish for finish, _ in ends])
    calls = replace(columns.calls, positions=[0] * len(ends), repeats=[0] * len(ends))
    finish, text = returned or ("", None)
    replies = replace(columns.replies, positions=[0], repeats=[0], texts=[text], finishes=[finish], failures=[""])
    return replace(columns, calls=calls, replies=replies)


@pytest.mark.parametrize(
    ("calls", "returned", "end"),
    [
        ([("length", "It is")], None, "cut"),
        ([("stop", "4"), ("length", "It is")], None, "cut"),
        ([("stop", "4")], None, ""),
        ([("stop", "")], None, "empty"),
        ([("tool_calls", ""), ("stop", "4")], None, ""),
        # Of a run of an earlier format: whether a call without a text was one of a tool is not known.
        ([(None, "")], None, None),
        # A test that returns a reply has chosen it: an earlier call that was cut is none of its ends.
        ([("length", "It is"), ("stop", "4")], ("stop", "4"), ""),
        # A value that the test has made of a reply.
        ([("length", "It is")], ("stop", "0.5"), "cut"),
        ([(None, "It is")], ("stop", "0.5"), ""),
    ],
)
def test_calls_show_the_ends_of_replies_that_the_test_does_not_return(calls, returned, end):
    assert list(unit_ends(calls_of_one_unit(*calls, returned=returned))) == [(0, end)]


def test_an_arm_whose_ends_are_not_known_has_no_count():
    arms = calls_of_one_unit(("length", "It is")), calls_of_one_unit((None, "4"))
    (line,) = check_ends(check_inputs(*arms))
    assert line.cells == ("1 cut", "")
