"""One experiment, whole: which estimates, targets and comparisons come out of stored replies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.records import Analysis, ArmOutcomes, Contrast, MetricFacts


def run_analysis(*arms: ArmOutcomes, family_size=None, **facts) -> Analysis:
    inputs = analysis_inputs(*arms, **facts)
    size = len(inputs.plan.contrasts) if family_size is None else family_size
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=size)


def test_every_metric_is_estimated_in_every_arm():
    analysis = run_analysis(arm(a=[True, False], b=[1.0, 2.0]), arm(a=[True, True], b=[3.0, 2.0]))

    assert [(est.metric, est.arm, est.value) for est in analysis.estimates] == [
        ("a", "v2", 0.5), ("a", "v1", 1.0), ("b", "v2", 1.5), ("b", "v1", 2.5),
    ]  # fmt: skip
    assert analysis.kinds == {"a": "binary", "b": "unbounded"}


def test_targets_are_about_the_candidate_alone():
    analysis = run_analysis(arm(a=[True, False]), arm(a=[False, False]), targets=["a >= 0.5"])

    assert [(result.estimate.arm, result.estimate.value) for result in analysis.targets] == [("v2", 0.5)]


def test_each_contrast_is_against_its_own_baseline():
    arms = [arm(a=[True, True, False]), arm(a=[True, False, False]), arm(a=[False, False, False])]
    contrasts = [Contrast(metric="a", baseline=name) for name in ("v0", "v1")]
    analysis = run_analysis(*arms, contrasts=contrasts)

    assert [pair.difference for pair in analysis.comparisons] == pytest.approx([2 / 3, 1 / 3])


def test_the_kind_is_that_of_all_arms_together():
    """The candidate happened to give only zeros and ones; the method is that of numbers in both."""
    analysis = run_analysis(
        arm(a=[1.0, 0.0, 1.0]), arm(a=[0.5, 0.0, 1.0]), arm(a=[True, False, True]),
        contrasts=[Contrast(metric="a", baseline="v0")],
    )  # fmt: skip

    assert analysis.kinds == {"a": "unbounded"}
    assert analysis.comparisons[0].method == "sign flips"


def test_the_kind_is_that_of_earlier_runs():
    analysis = run_analysis(arm(a=[True, False]), kinds={"a": "unbounded"})

    assert analysis.kinds == {"a": "unbounded"}
    assert analysis.estimates[0].method == "t"


def test_text_is_kept_out_of_the_numbers():
    analysis = run_analysis(arm(labels=("topic",), a=[True, False]))

    assert analysis.kinds == {"a": "binary", "topic": "text"}
    assert [est.metric for est in analysis.estimates] == ["a"]


def test_what_nothing_scored_has_no_result():
    analysis = run_analysis(arm(a=[True]), targets=["typo >= 0.5"], contrasts=[])

    assert analysis.targets == ()


def test_a_declared_metric_of_which_every_sample_failed_is_at_its_worst():
    facts = MetricFacts(name="a", kind="binary", low=0.0, high=1.0)
    failing = replace(arm(b=[1.0, 1.0], failures={0: "timeout", 1: "truncated"}), scores={})
    analysis = run_analysis(failing, metrics=[facts], targets=["a >= 0.5"], n=2)

    assert (analysis.targets[0].estimate.value, analysis.targets[0].estimate.n) == (0.0, 2)


def test_groups_make_clusters():
    values, groups = [True, True, False, True, False, False] * 2, list("aabbccddeeff")
    analysis = run_analysis(
        arm(a=values), arm(a=values), contrasts=[Contrast(metric="a", baseline="v1")], groups=groups
    )

    assert analysis.estimates[0].clusters == 6
    assert analysis.comparisons[0].clusters == 6


@pytest.mark.parametrize("groups", [list("abcd"), [None] * 4], ids=["each its own", "none"])
def test_groups_of_one_are_no_clusters(groups):
    analysis = run_analysis(arm(a=[True, True, False, True]), groups=groups)

    assert (analysis.estimates[0].clusters, analysis.estimates[0].method) == (None, "wilson")


def test_questions_of_the_whole_session_share_alpha():
    arms = [arm(a=[True, True, False, False] * 20), arm(a=[True, False, True, False] * 20)]
    contrast = [Contrast(metric="a", baseline="v1")]
    alone, among = (run_analysis(*arms, contrasts=contrast, family_size=k).comparisons[0] for k in (1, 20))

    assert alone.detectable < among.detectable
    assert (alone.interval, alone.p_value) == (among.interval, among.p_value)
