"""Replies that were requested again, against those that were cached."""

from __future__ import annotations

from dataclasses import replace

from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.refreshed import check_refreshed


def refreshed_arm(name, as_before, *, members=None, **fields):
    columns = arm_columns(name, ["x"] * len(as_before), **fields)
    calls = replace(columns.calls, as_before=as_before, members=members or columns.calls.members)
    return replace(columns, calls=calls)


def test_replies_that_differ_are_counted_by_the_reason_why_they_should_not():
    parameters = [None, None, None, {"temperature": 1, "seed": 3}, {"temperature": 1, "seed": 3}]
    arms = (
        refreshed_arm("v2", [True, False, True, False, None], parameters={"temperature": 0}, own=parameters),
        refreshed_arm("v1", [True, True], parameters={"temperature": 0}),
    )
    (finding,) = check_refreshed(check_inputs(*arms))

    assert finding.cells == (
        "1 of 3 differ, at temperature 0; 1 of 1 differ, with equal seeds",
        "0 of 2 differ, at temperature 0",
    )
    assert finding.problem == (
        "v2 gave other replies than those that were cached on 2 of 4 samples (6.8 to 93.2 % at 95 %), at temperature 0 or with "
        "equal seeds: it is not deterministic, or has changed since"
    )
    assert finding.document[1] == {"at temperature 0": {"replies": 2, "differ": 0}}


def test_equal_replies_are_no_problem():
    (finding,) = check_refreshed(check_inputs(refreshed_arm("v2", [True, True], parameters={"temperature": 0})))

    assert (finding.differs, finding.problem) == ("", "")


def test_a_run_that_has_refreshed_nothing_has_no_line():
    """Nor has one of a store from before, nor one whose judge alone was asked again."""
    arms = (
        arm_columns("v2", ["a"]),
        refreshed_arm("v1", [None]),
        refreshed_arm("v0", [True], members=["judge:critic"]),
    )

    assert list(check_refreshed(check_inputs(*arms))) == []
