"""Replies that were cut or empty, and verdicts that come from them, whichever arm has them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.ends import check_ends, end_of

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
