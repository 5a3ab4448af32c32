"""The different prompts that were sent, beside the groups by which the plan counts samples."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.prompts import check_prompts, count_forms
from pytest_crucible.records import Draws


def finding(*sent: list[tuple[int, ...]], groups: list[str | None] | None = None, equal: bool = False, declared=()):
    """Return the finding on arms that were sent these prompts, one list a sample."""
    arms = [arm_columns(f"v{2 - number}", ["a"] * len(of_arm)) for number, of_arm in enumerate(sent)]
    stored = SimpleNamespace(prompts=lambda arms: [dict(enumerate(of_arm)) for of_arm in sent])
    inputs = check_inputs(*arms, stored=stored, groups=groups or [None] * len(sent[0]), arms_differ_in=declared)
    if equal:
        inputs.plan.features["equal_inputs"] = {"samples": 4, "questions": 2, "declared": 0}
    [line] = check_prompts(inputs)
    return line


def test_different_prompts_are_counted():
    line = finding([(k,) for k in range(240)], [(k,) for k in range(240)])

    assert (line.cells, line.differs, line.problem) == (("the same 240", "the same 240"), "", "")
    assert line.document == [{"samples": 240, "different": 240}] * 2
    assert finding([(1,), (2,)]).cells == ("2 different",)
    assert finding([(1,), (2,)], []).cells == ("2 different", "")


def test_arms_with_other_prompts_say_on_how_many_samples():
    line = finding([(1,), (2,), (3,)], [(1,), (5,), (3,)])

    assert (line.cells, line.differs) == (("3 different", "3 different"), "differ on 1 of 3 samples")


def test_another_number_of_calls_is_no_other_prompt():
    line = finding([(1, 2), (3,)], [(1,), (3, 4)])

    assert (line.cells, line.differs) == (("the same 2", "the same 2"), "")


def test_equal_prompts_in_one_group_are_no_problem():
    assert finding([(1,), (1,), (2,), (2,)], groups=["a", "a", "b", "b"]).problem == ""


def test_equal_prompts_that_count_apart_are_a_problem():
    line = finding([(1,), (1,), (2,), (3,)])

    assert line.cells == ("3 different among 4 samples",)
    assert line.problem.startswith("2 of 4 samples were sent the same prompt as one that counts apart")
    assert line.severity is None


def test_a_few_equal_prompts_are_a_note():
    assert finding([(0,), (0,), *((k,) for k in range(1, 200))]).severity == "note"


def test_one_prompt_for_all_samples_is_a_problem():
    assert finding([(1,)] * 50).problem.startswith("all 50 samples were sent one prompt")


@pytest.mark.parametrize("equal", [True, False])
def test_different_prompts_in_a_group_are_a_problem_if_equal_inputs_made_it(equal):
    line = finding([(1,), (2,), (3,), (4,)], groups=["a", "a", "b", "b"], equal=equal)

    assert line.problem.startswith("the test sent different prompts for 2 groups" if equal else "")
    assert bool(line.problem) == equal


def test_another_reply_within_a_conversation_makes_no_other_question():
    assert finding([(1, 7), (1, 8), (2, 7), (2, 9)], groups=["a", "a", "b", "b"], equal=True).problem == ""


def test_without_a_call_there_is_no_line():
    inputs = check_inputs(arm_columns("v2", []), stored=SimpleNamespace(prompts=lambda arms: [{}]), groups=[])

    assert not list(check_prompts(inputs))


def test_prompts_that_the_test_itself_gives_one_arm_are_a_problem_unless_they_are_declared():
    sent = [(k,) for k in range(40)], [(k + 100,) for k in range(40)]

    line = finding(*sent)

    assert line.problem == (
        "the test sent v2 and v1 different prompts for 40 of 40 samples, and no adapter declares it: a difference of the arms may "
        "come from that; if it is what you compare, write arms_differ_in=['messages'] in the marker"
    )
    assert finding(*sent, declared=("messages",)).problem == ""


def test_later_prompts_contain_replies_and_may_differ():
    assert finding([(k, k + 1) for k in range(40)], [(k, k + 2) for k in range(40)]).problem == ""


@pytest.mark.parametrize(
    "declared", [{"variables": {"tone": "kind"}}, {"settings": {"system": "Be kind."}}, {"stored_run": "1a"}]
)
def test_prompts_that_arms_declare_may_differ(declared):
    sent = [{0: (1,), 1: (2,)}, {0: (3,), 1: (4,)}]
    arms = [arm_columns("v2", ["a"] * 2), arm_columns("v1", ["a"] * 2, **declared)]
    inputs = check_inputs(*arms, stored=SimpleNamespace(prompts=lambda arms: sent), groups=[None] * 2)
    assert [line.problem for line in check_prompts(inputs)] == [""]


@pytest.mark.parametrize(
    ("forms", "different"),
    [
        ([7, 8, 9, 9, 8, 7], 3),
        ([7, 7, 7, 8, 8, 8], 1),  # the test ignores the argument
        ([None] * 6, 1),
        ([7, 8, 7, 7, 9, 9], 2),
    ],
)
def test_forms_of_the_prompt_that_were_sent_are_counted(forms, different):
    arm = arm_columns("v2", ["a"] * 6, repeats=3)
    arm = replace(arm, calls=replace(arm.calls, forms=forms))
    assert count_forms(arm, Draws(prompts=3)) == different

    stored = SimpleNamespace(prompts=lambda arms: [{0: (1,), 1: (2,)}])
    (line,) = check_prompts(check_inputs(arm, stored=stored, groups=[None] * 2, draws=Draws(prompts=3)))
    assert line.problem.startswith(f"the test sent v2 only {different} different prompt") == (different < 3)


def test_a_sample_without_a_reply_in_each_form_does_not_show_how_many_were_sent():
    arm = arm_columns("v2", ["a"] * 2, repeats=2)
    assert count_forms(arm, Draws(prompts=3)) == 0
    assert count_forms(arm_columns("v2", ["a"] * 4, repeats=4), Draws(prompts=2, rounds=2)) == 1
