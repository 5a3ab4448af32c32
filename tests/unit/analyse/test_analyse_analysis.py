"""Analyses of an experiment: facts, inapplicable samples, exclusions, pools and p-values."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible.analyse.adjusted_analyses import add_reduced_evidence, map_p_values, without_excluded
from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.analyse.pool import Part, fill_repeats, pool_answers, pool_arms
from pytest_crucible.analyse.scores import mark_inapplicable, scores
from pytest_crucible.records import (
    Analysis,
    ArmOutcomes,
    BoundedValue,
    Comparison,
    Contrast,
    Draws,
    Evidence,
    Exclusion,
    Look,
    Lost,
    MetricFacts,
    ScoreColumns,
    Unit,
)
from pytest_crucible.records.datasets import AppliesTo
from pytest_crucible.records.serialize import from_plain, to_plain


def run_analysis(*arms: ArmOutcomes, family_size=None, **facts) -> Analysis:
    inputs = analysis_inputs(*arms, **facts)
    return analyse_inputs(inputs, len(inputs.plan.contrasts) if family_size is None else family_size)


def analyse_inputs(inputs: AnalysisInputs, family_size: int = 1) -> Analysis:
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=family_size)


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


EXPECTED = ["approve", {"label": "deny"}, "Approve", "deny", "deny", "approve"]
TRUE = MetricFacts(name="true_positive", kind="binary", low=0, high=1, applies_to=AppliesTo("approve", True))
FALSE = MetricFacts(
    name="false_positive", kind="binary", low=0, high=1, direction="lower", applies_to=AppliesTo("approve", False)
)
PLAN = SimpleNamespace(metrics=(MetricFacts(name="selected"), TRUE, FALSE), draws=lambda arm: Draws())


@pytest.fixture
def with_failures():
    """Samples 0 and 1 are scored, 2 and 3 failed (a refusal), 4 and 5 are lost."""
    columns = {
        "true_positive": ScoreColumns(positions=[0, 1], repeats=[0, 0], values=[1.0, None], is_bool=[True, False]),
        "false_positive": ScoreColumns(positions=[0, 1], repeats=[0, 0], values=[None, 0.0], is_bool=[False, True]),
    }
    return ArmOutcomes(
        positions=[0, 1, 2, 3], repeats=[0] * 4, failures=[None, None, "refusal", "refusal"], skipped=[False] * 4,
        scores=columns, labels=frozenset(), judge_texts={}, lost=[Lost(Unit(k, 0, 0, 0), None, "error", "") for k in (4, 5)],
    )  # fmt: skip


def test_a_rate_has_the_failed_and_lost_replies_of_its_own_samples(with_failures):
    (marked,) = mark_inapplicable(PLAN, (with_failures,), EXPECTED)
    true, false = (scores(facts, marked, samples=6, repeats=1) for facts in (TRUE, FALSE))

    np.testing.assert_array_equal(true.values, [1, np.nan, 0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(false.values, [np.nan, 0, np.nan, 1, np.nan, np.nan])
    assert (np.flatnonzero(true.lost).tolist(), np.flatnonzero(false.lost).tolist()) == ([5], [4])
    assert np.flatnonzero(true.inapplicable).tolist() == [1, 3, 4]
    assert np.flatnonzero(false.inapplicable).tolist() == [0, 2, 5]
    assert marked.scores.keys() == with_failures.scores.keys()


def test_without_expected_answers_nothing_is_known(with_failures):
    assert mark_inapplicable(PLAN, (with_failures,), ()) == (with_failures,)


def test_the_condition_is_stored_with_the_facts():
    assert from_plain(MetricFacts, to_plain(FALSE)) == FALSE


CONTRAST = Contrast(metric="ok", baseline="v1")
V2, V1 = [True] * 12 + [False] * 8, [True] * 4 + [False] * 16


def both(*exclusions: Exclusion, v2=V2, **facts):
    inputs = analysis_inputs(arm(ok=v2), arm(ok=V1), targets=["ok >= 0.5"], contrasts=[CONTRAST], **facts)
    inputs = replace(
        inputs, plan=replace(inputs.plan, exclusions=exclusions), sample_ids=[f"q{k}" for k in range(len(V2))]
    )
    whole = analyse_inputs(inputs)
    reduced = without_excluded(inputs, whole.kinds)
    return whole, reduced, reduced and add_reduced_evidence(whole, analyse_inputs(reduced))


def test_excluded_samples_are_not_counted_as_lost():
    whole, _, analysis = both(Exclusion(reason="match train.jsonl", sample_ids=("q0", "q1", "q2", "elsewhere")))
    of_target, of_comparison = analysis.targets[0].reduced, analysis.comparisons[0].reduced

    assert (of_target.n, of_target.lost, of_target.excluded) == (17, 0, 3)
    assert of_target.evidence.observed.value == 9 / 17
    assert (of_comparison.n, of_comparison.excluded, of_comparison.reason) == (17, 3, "match train.jsonl")
    assert analysis.targets[0].evidence == whole.targets[0].evidence


def test_the_evidence_is_that_of_a_run_without_the_excluded_samples():
    _, _, analysis = both(Exclusion(reason="match train.jsonl", sample_ids=("q0", "q19")))
    inputs = analysis_inputs(arm(ok=V2[1:19]), arm(ok=V1[1:19]), targets=["ok >= 0.5"], contrasts=[CONTRAST])
    alone = analyse_inputs(inputs)

    assert analysis.targets[0].reduced.evidence == alone.targets[0].evidence
    assert analysis.comparisons[0].reduced.evidence == alone.comparisons[0].evidence


def test_samples_that_are_lost_outside_stay_lost():
    _, _, analysis = both(
        Exclusion(reason="match train.jsonl", sample_ids=("q0",)), v2=["lost", *V2[1:19], "lost"]
    )  # fmt: skip

    assert analysis.targets[0].reduced is None, "the lost q0 had no part in the estimate"
    assert analysis.comparisons[0].reduced is None


def test_several_exclusions_are_left_out_together():
    _, _, analysis = both(
        Exclusion(reason="match train.jsonl", sample_ids=("q0", "q1")),
        Exclusion(reason="chose the threshold", sample_ids=("q1", "q2")),
    )

    assert analysis.targets[0].reduced.excluded == 3
    assert analysis.targets[0].reduced.reason == "match train.jsonl or chose the threshold"


def test_without_samples_to_leave_out_nothing_is_computed_again():
    assert both()[1] is None
    assert both(Exclusion(reason="match train.jsonl", sample_ids=("elsewhere",)))[1] is None


def test_a_kind_is_that_of_all_samples():
    _, reduced, _ = both(Exclusion(reason="match train.jsonl", sample_ids=("q0",)), v2=[0.5, *V2[1:]])

    assert score_table(reduced).facts["ok"].kind == "unbounded"


OK = MetricFacts(name="a", kind="binary", low=0.0, high=1.0)
ALL = frozenset({(0, 0), (1, 0)})


def test_repeats_are_renumbered_and_averaged():
    pooled = pool_answers([Part(arm(a=[True, True]), ALL), Part(arm(a=[True, False]), ALL)], 1)

    assert sorted(zip(pooled.positions, pooled.repeats, strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert scores(OK, pooled, samples=2, repeats=2).values.tolist() == [1.0, 0.5]


def test_a_reply_that_is_not_new_is_left_out_and_its_sample_has_fewer_repeats():
    pooled = fill_repeats(
        pool_answers([Part(arm(a=[True, True]), ALL), Part(arm(a=[False, False]), frozenset({(1, 0)}))], 1), 2
    )
    means = scores(OK, pooled, samples=2, repeats=2)

    assert means.values.tolist() == [1.0, 0.5]
    assert not means.lost.any()


def test_a_lost_reply_stays_lost():
    pooled = pool_answers([Part(arm(a=["lost", True]), frozenset({(1, 0)})), Part(arm(a=[True, True]), ALL)], 1)
    means = scores(OK, pooled, samples=2, repeats=2)

    assert means.lost.tolist() == [True, False]
    assert (means.low[0], means.values[0], means.high[0]) == (0.5, 1.0, 1.0)


def test_each_session_that_brought_replies_is_a_round():
    """The second session copies all of its replies, and the third those of the baseline."""
    new, none = Part(arm(a=[True, False]), ALL), Part(arm(a=[True, False]), frozenset())
    look = Look(number=2, replies=(), since="")
    own, both = (pool_arms([[new, none, new], baseline], look) for baseline in ([new, none, none], [new, none, new]))

    assert (own.rounds, own.repeats, own.is_paired, own.look.sessions) == (2, 2, False, (2, 1))
    assert (both.rounds, both.is_paired, both.look.sessions) == (2, True, (2, 2))
    # A sample without a reply in a session is skipped there.
    assert own.answers[1].skipped == [False, False, True, True]


READING = BoundedValue(value=0.1, lower=None, upper=None, p_value=0.02)
COMPARISON = Comparison(
    contrast=Contrast(metric="accuracy", baseline="v1"), candidate="v2", pairs=50, lost=1, clusters=None, difference=0.1,
    interval=None, p_value=0.02, p_exact=0.03, method="tango", detectable=None, needed=None,
    evidence=Evidence(observed=READING, worst=replace(READING, p_value=None), best=READING, method="tango"),
)  # fmt: skip


def test_every_p_value_is_scaled_and_an_unknown_one_stays_unknown():
    scaled = map_p_values(COMPARISON, lambda p_value: 2 * p_value)

    assert (scaled.p_value, scaled.p_exact) == (0.04, 0.06)
    assert [getattr(scaled.evidence, end).p_value for end in ("observed", "worst", "best")] == [0.04, None, 0.04]
    assert scaled.evidence.method == "tango"
    assert scaled.difference == COMPARISON.difference
