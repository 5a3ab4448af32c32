"""Samples whose repeats agree, and those that are flaky."""

from __future__ import annotations

from answer_builders import LOST, inputs_of, reply_rows

from pytest_crucible.records import MetricFacts
from pytest_crucible.sections import stability

PASSES = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)


def stability_of(*arms, **plan):
    rows = [reply_rows(arm) for arm in arms]
    return stability.compute(inputs_of(*rows, metrics=[PASSES], n=len(arms[0]), repeats=len(arms[0][0]), **plan))


def test_a_sample_is_flaky_if_two_of_its_known_repeats_differ():
    ours = [[True, True, True], [True, False, True], [False, LOST, False], [True, LOST, LOST], [True, False, LOST]]

    [arm] = stability_of(ours)

    # The fourth sample has one known reply, which can differ from nothing.
    assert (arm.n, arm.flaky, arm.repeats, arm.share) == (4, 2, 3, 0.5)
    assert [(each.sample, each.mean) for each in arm.worst] == [("4", 0.5), ("1", 2 / 3)]
    table = stability.view([arm], ()).tables[0]
    assert table.rows[0].cells[:5] == ("v2", "3", "4", "2", "2")
    assert table.rows[0].cells[-1] == "4 (0.5), 1 (0.667)"


def test_each_arm_has_its_own_line_and_few_samples_are_named():
    arms = stability_of([[True, False]] * 9, [[True, True]] * 9)

    assert [(arm.arm, arm.flaky, len(arm.worst)) for arm in arms] == [("v2", 9, 5), ("v1", 0, 0)]


def test_without_repeats_there_is_no_section():
    assert stability_of([[True], [False]]) is None


def test_rounds_are_repeats_of_one_request():
    assert stability_of([[True, False], [True, True]], rounds=2)[0].flaky == 1
