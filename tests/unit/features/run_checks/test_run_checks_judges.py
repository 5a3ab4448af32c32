"""Verdicts on equal inputs, those that could not be read, and those that came from the cache."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from arm_columns import arm_columns, check_inputs
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.run_checks.finding import ArmColumns
from pytest_crucible.features.run_checks.judges import check_judges, group_verdicts
from pytest_crucible.records import Lost, Unit
from pytest_crucible.records.calls import CallColumns

LONG = {b"g": "It is right in all respects.\nVERDICT: good", b"G": "Well.\n**VERDICT: Good**", b"p": "VERDICT: poor"}


def judged_arm(name, *rows):
    """An arm with calls of a judge: (position, repeat, form, text or key of a long one, cached, request)."""
    rows = [(*row, *(False, 1)[len(row) - 4 :]) for row in rows]
    positions, repeats, forms, texts, cached, requests = zip(*rows, strict=True)
    calls = CallColumns(
        positions=positions,
        repeats=repeats,
        calls=range(1, 1 + len(rows)),
        requests=requests,
        members=["judge:critic"] * len(rows),
        forms=forms,
        parameters=[""] * len(rows),
        texts=texts,
        answered_by=[None] * len(rows),
        cached=cached,
        as_before=[None] * len(rows),
        finishes=["stop"] * len(rows),
    )
    columns = arm_columns(name, ["x"])
    return ArmColumns(arm=columns.arm, calls=calls, replies=columns.replies)


def check(*arms, lost=((), ())):
    stored = SimpleNamespace(long_texts=lambda keys: {key: LONG[key] for key in keys})
    answers = [SimpleNamespace(lost=of_arm) for of_arm in lost[: len(arms)]]
    return list(check_judges(check_inputs(*arms, stored=stored, answers=answers)))


def no_verdicts(positions):
    detail = "metric 'right' raised NoVerdict: no readable verdict in two replies: ..."
    return [Lost(Unit(position, 0, 0, 0), "right", "scorer", detail) for position in positions]


def test_equal_inputs_with_other_verdicts_are_counted_by_sample():
    """Sample 0: other words, one verdict. Sample 1: two verdicts. Sample 2: two inputs."""
    rows = [(0, 0, 1, b"g"), (0, 1, 1, b"G"), (1, 0, 2, b"g"), (1, 1, 2, b"p"), (2, 0, 3, b"g"), (2, 1, 4, b"p")]
    (finding,) = check(judged_arm("v2", *rows))

    assert (finding.cells, finding.differs) == (("1 of 2 samples differ",), "verdicts differ")
    assert finding.problem == ""  # one sample proves little


def test_a_judge_that_often_contradicts_itself_is_a_problem():
    rows = [
        (k, repeat, k, "VERDICT: good" if repeat or k % 2 else "VERDICT: poor") for k in range(20) for repeat in (0, 1)
    ]
    (finding,) = check(judged_arm("v2", *rows))

    assert finding.problem == (
        "judge critic gave equal inputs different verdicts on 10 of 20 samples (27.2 to 72.8 % at 95 %): equal replies "
        "get different scores; votes=3 or temperature 0 makes that rarer"
    )


def test_votes_on_a_question_are_there_to_differ():
    rows = [
        (k, 0, k, "VERDICT: good" if vote == 1 else "VERDICT: poor", False, vote)
        for k in range(20)
        for vote in (1, 2, 3)
    ]
    (finding,) = check(judged_arm("v2", *rows))

    assert (finding.cells, finding.problem) == (("20 of 20 samples differ",), "")


def test_an_input_that_two_arms_share_is_one_input():
    ours, theirs = ([(k, 0, k, "VERDICT: " + verdict) for k in range(20)] for verdict in ("good", "poor"))
    (finding,) = check(judged_arm("v2", *ours), judged_arm("v1", *theirs))

    assert finding.cells == ("20 of 20 samples differ", "20 of 20 samples differ")
    assert "on 20 of 20 samples" in finding.problem


def test_a_cached_verdict_is_no_second_one():
    ours = [(k, 0, k, "VERDICT: good") for k in range(20)]
    theirs = [(k, 0, k, "VERDICT: good", True) for k in range(20)]
    (finding,) = check(judged_arm("v2", *ours), judged_arm("v1", *theirs))

    assert finding.cells == ("read once each", "20 of 20 from the cache")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([None, True])), min_size=1, max_size=12)
)
def test_calls_that_may_be_one_draw_are_counted_once(rows):
    """Stores of before do not say what was cached: equal requests of one sample and repeat may then be one."""
    arm = judged_arm("v2", *((position, repeat, 7, "VERDICT: good", cached) for position, repeat, cached in rows))
    readings = group_verdicts([arm]).get(("judge:critic", 7), ())

    draws = len({(position, repeat) for position, repeat, _ in rows})
    assert len(readings) == (draws if draws > 1 else 0)


def test_an_unreadable_verdict_is_not_another_verdict():
    (finding,) = check(judged_arm("v2", (0, 0, 1, "VERDICT: good"), (0, 1, 1, "I cannot say.")))

    assert (finding.cells, finding.differs) == (("0 of 1 samples differ",), "")


@pytest.mark.parametrize(("lost", "is_problem"), [(3, False), (12, True)])
def test_unreadable_verdicts_on_one_arm_alone_are_a_problem(lost, is_problem):
    arms = [
        judged_arm(name, *((k, 0, 100 * number + k, "VERDICT: good") for k in range(50)))
        for number, name in enumerate("ab")
    ]
    (finding,) = check(*arms, lost=(no_verdicts(range(lost)), ()))

    assert finding.cells == (f"{lost} unreadable", "read once each")
    assert finding.problem == (
        "verdicts were unreadable on 12 of 50 samples of a and 0 of 50 of b: their scores are lost, and what is left are "
        "other samples"
        if is_problem
        else ""
    )


def test_without_a_judge_there_is_no_line():
    assert check(arm_columns("v2", ["a", "b"])) == []
