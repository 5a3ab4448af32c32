"""Stages as they are written, options that exclude each other, workers that wait, and targets out of reach."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.stopping import keep_answers
from pytest_crucible.features.stages import FEATURE
from pytest_crucible.features.stages.definition import (
    option_conflicts,
    parse_stages,
    stage_alpha,
    stage_length,
    stage_number,
)
from pytest_crucible.features.stages.looks import out_of_reach, out_of_reach_after
from pytest_crucible.features.stages.stage_plugin import StageBarrier
from pytest_crucible.options import OPTIONS
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("smoke: 100, dev: 20", 'crucible_stages = "smoke: 100, dev: 20": stages must grow, for example "smoke: 20, '),
        ("smoke: 20, dev: 20, full", "stages must grow"),
        ("smoke, full", "stages must grow"),
        ("smoke: 0, full", "stages must grow"),
        (
            "smoke: 20, dev: 100",
            'the last stage has all samples: write it without a number, for example "smoke: 20, dev',
        ),
        ("smoke: 20, smoke: 30, full", "two stages are named 'smoke'"),
        ("smoke: many, full", "'smoke: many' is not a stage: write a name and a number"),
        ("smoke: 20,, full", "'' is not a stage"),
        ("20, full", "'20' is not a stage"),
    ],
)
def test_stages_that_cannot_be_run_are_refused(text, sentence):
    with pytest.raises(SpecError) as caught:
        parse_stages(text)

    assert sentence in str(caught.value)


def test_an_unknown_stage_is_answered_with_the_nearest():
    stages = parse_stages("smoke: 20, full")

    assert stage_number(stages, "full", "--crucible-until=full") == 1
    with pytest.raises(SpecError, match=r"did you mean 'smoke'. the stages are smoke, full"):
        stage_number(stages, "smok", "--crucible-until=smok")
    with pytest.raises(SpecError, match=r"^--crucible-until=smoke needs stages: set crucible_stages"):
        stage_number((), "smoke", "--crucible-until=smoke")


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_the_stages_spend_alpha_together(stages):
    spent = [stage_alpha(0.05, stages, number) for number in range(stages)]

    assert sum(spent) == pytest.approx(0.05)
    assert spent[-1] >= 0.04


def test_a_stage_ends_with_a_whole_group_or_with_the_data():
    order, groups = [3, 2, 1, 0], ["a", "b", "b", None]

    assert [stage_length(order, groups, size) for size in (1, 2, 3, 9, None)] == [1, 3, 3, 4, 4]


DEFAULTS = {option.name: option.default for option in (*OPTIONS, *FEATURE.options)}


def sentences(**values: object) -> list[str]:
    return [sentence for is_conflict, sentence in option_conflicts({**DEFAULTS, **values}) if is_conflict]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"stop": True},
        {"cache": "only"},
        {"stages": "smoke: 20, full"},
        {"stages": "smoke: 20, full", "until": "smoke"},
    ],
)
def test_one_option_alone_conflicts_with_nothing(values):
    assert sentences(**values) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"stop": True, "rounds": 3}, ("--crucible-stop", "--crucible-rounds")),
        ({"stop": True, "memory": "pool"}, ("--crucible-stop", "crucible_memory")),
        ({"stages": "full", "stop": True}, ("--crucible-stop", "crucible_stages")),
        ({"stages": "full", "rounds": 3}, ("crucible_stages", "--crucible-rounds")),
        ({"stages": "full", "memory": "pool"}, ("crucible_stages", "crucible_memory")),
        ({"stages": "20: smoke"}, ("20: smoke", "write a name and a number")),
        ({"stages": "smoke: 20, full", "until": "smok"}, ("--crucible-until=smok", "smoke")),
        ({"until": "smoke"}, ("--crucible-until=smoke", "crucible_stages")),
    ],
)
def test_a_conflict_is_one_sentence_that_names_both(values, named):
    (sentence,) = sentences(**values)

    assert all(name in sentence for name in named)


@pytest.fixture
def barrier(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"))
    barrier = StageBarrier(store, "run")
    for worker in ("gw0", "gw1", "gw2"):
        barrier.enter(worker)
    yield barrier
    store.close()


def stop() -> None:
    raise KeyboardInterrupt


def test_a_worker_waits_until_all_others_have_run_the_stage(barrier):
    barrier.leave("gw2")
    passed = threading.Event()

    def wait() -> None:
        barrier.pass_stage("gw0", 0, lambda: None)
        passed.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not passed.wait(0.15)
    barrier.pass_stage("gw1", 0, stop)
    assert passed.wait(60)
    waiting.join()


def test_a_stage_that_was_passed_is_not_the_next_one(barrier):
    barrier.leave("gw1")
    barrier.leave("gw2")
    barrier.pass_stage("gw0", 0, stop)
    barrier.enter("gw3")

    with pytest.raises(KeyboardInterrupt):
        barrier.pass_stage("gw0", 1, stop)


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
