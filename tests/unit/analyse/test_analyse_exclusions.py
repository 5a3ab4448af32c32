"""The evidence without excluded samples."""

from __future__ import annotations

from dataclasses import replace

from answer_builders import analysis_inputs, arm

from pytest_crucible.analyse.adjusted_analyses import add_reduced_evidence, without_excluded
from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.records import Contrast, Exclusion

CONTRAST = Contrast(metric="ok", baseline="v1")
V2, V1 = [True] * 12 + [False] * 8, [True] * 4 + [False] * 16


def run_analysis(inputs):
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def both(*exclusions: Exclusion, v2=V2, **facts):
    inputs = analysis_inputs(arm(ok=v2), arm(ok=V1), targets=["ok >= 0.5"], contrasts=[CONTRAST], **facts)
    inputs = replace(
        inputs, plan=replace(inputs.plan, exclusions=exclusions), sample_ids=[f"q{k}" for k in range(len(V2))]
    )
    whole = run_analysis(inputs)
    reduced = without_excluded(inputs, whole.kinds)
    return whole, reduced, reduced and add_reduced_evidence(whole, run_analysis(reduced))


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
    alone = run_analysis(inputs)

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
