"""The sentence at the head of a report is literally true, whatever was compared and decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_builders import make_analysis, make_plan, make_run

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Arm,
    BoundedValue,
    Contrast,
    Evidence,
    MetricFacts,
    ReducedEvidence,
    Run,
    TargetResult,
    Verdict,
)
from pytest_crucible.report.verdict_text import plain_sentence
from pytest_crucible.stats.interval import Interval


def evidence(value: float | None, p: float | None, worst: float | None = None) -> Evidence:
    observed = BoundedValue(value=value, lower=value, upper=value, p_value=p, proof_p=p)
    reading = observed if worst is None else replace(observed, value=worst)
    return Evidence(observed=observed, worst=reading, best=observed, method="m")


def compared(difference=0.12, low=0.08, high=0.16, p=0.001, contrast=None, worst=None, **facts):
    [pair] = make_analysis(make_plan()).comparisons
    return replace(
        pair,
        contrast=contrast or pair.contrast,
        difference=difference,
        interval=None if low is None else Interval(low=low, high=high, level=facts.pop("level", 0.95), method="m"),
        proof_p=p,
        proof_adjusted=facts.pop("proof_adjusted", p),
        evidence=evidence(difference, p, worst),
        **facts,
    )


def run_of(*pairs, states=("met",), targets=(), finished=True, plan=None, errors=()) -> Run:
    plan = plan or make_plan()
    analysis = make_analysis(plan, comparisons=pairs, targets=targets, finished=finished)
    verdicts = tuple(
        Verdict(
            nodeid=plan.nodeid,
            subject=f"g{k}",
            kind="target",
            state=state,
            proven=False,
            reason="",
            suite_error=k in errors,
        )
        for k, state in enumerate(states)
    )
    return make_run(analysis, verdicts=verdicts)


def test_proven_differences_are_stated():
    assert plain_sentence(run_of(compared(), states=["met"] * 4)) == (
        "v2 is better than v1 by 12 points [8, 16] (exact); all 4 gates hold."
    )
    assert plain_sentence(run_of(compared(-0.12, -0.16, -0.08), states=["missed"])) == (
        "v2 is worse than v1 by 12 points [8, 16] (exact); the gate is missed."
    )


UNPROVEN = {
    "interval": compared(0.12, -0.02, 0.26, 0.09),
    "p-value": compared(p=0.06),
    "adjusted p-value": compared(p=0.03, proof_adjusted=0.06),
    "no bounds": compared(p=None),
    "lost samples": compared(lost=20, worst=-0.01),
    "excluded samples": compared(
        reduced=ReducedEvidence(evidence=evidence(0.1, 0.2), n=9, lost=0, excluded=9, reason="r")
    ),
    "error": compared(suite_error="no"),
}


@pytest.mark.parametrize("why", UNPROVEN)
def test_unproven_differences_are_not_claimed(why):
    sentence = plain_sentence(run_of(UNPROVEN[why]))

    assert sentence.startswith("v2 did better than v1 on 198 samples, by 12 points [")
    assert sentence.endswith("(exact), but that v2 is better is not proven; the gate holds.")


def test_arms_that_differ_while_the_mean_is_not_proven_lower():
    assert plain_sentence(run_of(compared(-0.035, -0.087, 0.016, 0.18, p_value=0.001), states=["missed"])) == (
        "v2 did worse than v1 on 198 samples, by 3.5 points [-1.6, 8.7] (exact), but that v2 is worse is not proven; "
        "the gate is missed."
    )


def test_a_run_that_was_cut_short_proves_nothing():
    assert "is not proven" in plain_sentence(run_of(compared(), states=["undecided"], finished=False))


def test_equal_arms_missing_samples_and_missing_intervals_are_described():
    assert plain_sentence(run_of(compared(0.0, -0.02, 0.02, 1.0))).startswith(
        "v2 and v1 are equal on average on 198 samples"
    )
    assert plain_sentence(run_of(compared(None, None, None, None, pairs=0))).startswith(
        "v2 and v1 are not compared: no sample"
    )
    assert "by 12 points [no interval] (exact), but" in plain_sentence(run_of(compared(low=None)))


def test_a_margin_shows_the_level_of_its_interval():
    contrast = Contrast(metric="exact", baseline="v1", alternative="non-inferior", margin=0.05)
    sentence = plain_sentence(run_of(compared(contrast=contrast, proof_adjusted=None, level=0.9)))

    assert sentence.startswith("v2 is better than v1 by 12 points [8, 16] (90 %) (exact)")


def test_amounts_have_no_points_and_lower_is_better_where_it_is():
    pair = compared(0.5, 0.2, 0.8, contrast=Contrast(metric="seconds", baseline="v1"))

    assert plain_sentence(run_of(pair)).startswith("v2 is better than v1 by 0.500 [0.200, 0.800] (seconds); ")


def test_a_metric_without_a_direction_is_neither_better_nor_worse():
    plan = make_plan(metrics=(MetricFacts(name="exact", kind="binary", low=0.0, high=1.0, is_directed=False),))
    sentence = plain_sentence(run_of(compared(-0.12, -0.16, -0.08), plan=plan))

    assert sentence.startswith("v2 minus v1 is -12 points [-16, -8] on 198 samples (exact)")


def test_several_comparisons_are_counted():
    better, worse, open_one = compared(), compared(-0.1, -0.2, -0.05), compared(p=0.5)
    assert plain_sentence(run_of(better, worse, open_one, states=["met", "missed", "undecided"])) == (
        "v2 is proven better than v1 in 1 of 3 comparisons and worse than v1 in 1 of 3 comparisons; "
        "1 of 3 gates holds, 1 is missed, 1 is undecided."
    )
    assert plain_sentence(run_of(open_one, open_one, states=["met"] * 2)) == (
        "In none of 2 comparisons is v2 proven better or worse than v1; both gates hold."
    )
    other = replace(better, contrast=Contrast(metric="exact", baseline="v0"))
    assert plain_sentence(run_of(better, other)).startswith(
        "The candidate is proven better than its baseline in 2 of 2 comparisons; "
    )


def test_without_a_baseline_the_only_target_is_named():
    [target, *_] = make_analysis(make_plan()).targets
    assert (
        plain_sentence(run_of(targets=[target])) == "v2 has exact 0.810 [0.750, 0.858] on 200 samples; the gate holds."
    )
    assert (
        plain_sentence(run_of(targets=[target, target], states=["met", "missed"])) == "1 of 2 gates holds, 1 is missed."
    )
    unknown = TargetResult(
        target=parse_target("exact >= 0.8"),
        estimate=replace(target.estimate, value=None), evidence=evidence(None, None), needed=None,
    )  # fmt: skip
    assert plain_sentence(run_of(targets=[unknown], states=["undecided"])) == "The gate is undecided."


@pytest.mark.parametrize(
    ("states", "errors", "gates"),
    [
        ([], (), "No gate was decided."),
        (["met"], (), "The gate holds."),
        (["met"] * 2, (), "Both gates hold."),
        (["met"] * 1200, (), "All 1,200 gates hold."),
        (["undecided"], (0,), "The gate is in error."),
        (["missed"] * 2, (), "None of 2 gates holds: 2 are missed."),
        (["met", "met", "undecided", "undecided"], (3,), "2 of 4 gates hold, 1 is undecided, 1 is in error."),
    ],
)
def test_gates_are_counted(states, errors, gates):
    assert plain_sentence(run_of(states=states, errors=errors)) == gates


def test_an_interval_that_excludes_0_shows_no_0():
    assert "by 0.42 points [0.02, 0.82] (exact)" in plain_sentence(run_of(compared(0.0042, 0.0002, 0.0082, 0.04)))
    assert "by 0.0300 points [0.0004, 1.0000]" in plain_sentence(run_of(compared(0.0003, 0.000004, 0.01, 0.04)))


def test_scripted_replies_and_names_with_control_characters():
    arms = (
        Arm(name="v2\x1b[2J", role="candidate", adapter="a", identity="i", simulated=True),
        Arm(name="v1", role="baseline", adapter="b", identity="j"),
    )
    run = make_run(make_analysis(make_plan(), comparisons=[compared(candidate="v2\x1b[2J")]), verdicts=())
    [analysis] = run.experiments
    run = replace(run, experiments=(replace(analysis, plan=replace(analysis.plan, arms=arms)),))
    sentence = plain_sentence(run)

    assert sentence.startswith("With scripted replies, v2\\x1b[2J is better than v1 by ")
