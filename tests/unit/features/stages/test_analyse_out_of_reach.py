"""A target is out of reach when the best scores that are left cannot meet it, and never before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.stopping import keep_answers
from pytest_crucible.features.stages.looks import out_of_reach, out_of_reach_after
from pytest_crucible.plan.targets import parse_target

N = 12


def inputs(values, target, *, answered=N):
    result = analysis_inputs(arm(a=values))
    plan = replace(result.plan, planned=N, selected=N, targets=(parse_target(target),), contrasts=())
    return replace(result, plan=plan, groups=[None] * N, answers=(keep_answers(result.answers[0], range(answered)),))


@pytest.mark.parametrize(
    ("target", "wrong"),
    [("a >= 0.7", 4), ("a > 0.75", 3), ("count(a) >= 10", 3), ("rate(a >= 1) >= 0.95", 1), ("a >= 0", None)],
)
def test_the_first_sample_after_which_no_scores_can_meet_a_target(target, wrong):
    """Wrong answers first: each costs 1/12 of the mean."""
    given_all = inputs([False] * 6 + [True] * 6, target)

    assert out_of_reach_after(given_all, list(range(N))) == wrong


def test_a_count_of_zero_is_out_of_reach_with_the_first_one():
    assert out_of_reach_after(inputs([False] * 4 + [True] + [False] * 7, "count(a) == 0"), list(range(N))) == 5


def test_a_target_that_must_be_proven_is_not_decided_by_the_estimate():
    given_all = inputs([False] * N, "a >= 0.9")
    bound = replace(given_all, plan=replace(given_all.plan, targets=(parse_target("a >= 0.9", decide="bound"),)))

    assert out_of_reach_after(given_all, list(range(N))) == 2
    assert out_of_reach_after(given_all, list(range(N)), strict=True) is None
    assert out_of_reach_after(bound, list(range(N))) is None


def test_lost_samples_and_those_without_bounds_may_have_any_score():
    lost = ["lost"] * 6 + [True] * 6

    assert out_of_reach(inputs(lost, "a >= 0.99"), list(range(N))) == []
    assert out_of_reach(inputs([0.5, 7.0] * 6, "a >= 1000"), list(range(N - 1))) == []


@given(st.lists(st.booleans() | st.none(), min_size=N, max_size=N), st.integers(1, N - 1), st.data())
def test_what_is_out_of_reach_stays_so_whatever_the_rest_scores(values, k, data):
    target = data.draw(
        st.sampled_from(["a >= 0.7", "a <= 0.4", "count(a) == 0", "count(a) <= 3", "rate(a >= 1) > 0.5"])
    )
    rest = data.draw(st.lists(st.booleans() | st.none(), min_size=N - k, max_size=N - k))
    if out_of_reach(inputs(values, target), list(range(k))):
        assert out_of_reach(inputs(values[:k] + rest, target), list(range(N)))
