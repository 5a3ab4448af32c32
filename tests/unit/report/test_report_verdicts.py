"""Verdicts in words: the sentence at the head of a report, one verdict, and the plan of an experiment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_builders import make_analysis, make_plan, make_run

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Arm,
    BoundedValue,
    Contrast,
    DetectableEffect,
    Evidence,
    MetricFacts,
    ReducedEvidence,
    Run,
    TargetResult,
    Verdict,
)
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.records.plan import EQUAL_INPUTS, EqualInputs
from pytest_crucible.report.plain_sentence import plain_sentence
from pytest_crucible.report.plan_lines import announcement
from pytest_crucible.report.verdicts import sentence
from pytest_crucible.stats.interval import Interval


def evidence(value: float | None, p: float | None, worst: float | None = None) -> Evidence:
    observed = BoundedValue(value=value, lower=value, upper=value, p_value=p, proof_p=p)
    reading = observed if worst is None else replace(observed, value=worst)
    return Evidence(observed=observed, worst=reading, best=observed, method="m")


def make_comparison(difference=0.12, low=0.08, high=0.16, p=0.001, contrast=None, worst=None, **facts):
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
    assert plain_sentence(run_of(make_comparison(), states=["met"] * 4)) == (
        "v2 is better than v1 by 12 points [8, 16] (exact); all 4 gates hold."
    )
    assert plain_sentence(run_of(make_comparison(-0.12, -0.16, -0.08), states=["missed"])) == (
        "v2 is worse than v1 by 12 points [8, 16] (exact); the gate is missed."
    )


UNPROVEN = {
    "interval": make_comparison(0.12, -0.02, 0.26, 0.09),
    "p-value": make_comparison(p=0.06),
    "adjusted p-value": make_comparison(p=0.03, proof_adjusted=0.06),
    "no bounds": make_comparison(p=None),
    "lost samples": make_comparison(lost=20, worst=-0.01),
    "excluded samples": make_comparison(
        reduced=ReducedEvidence(evidence=evidence(0.1, 0.2), n=9, lost=0, excluded=9, reason="r")
    ),
    "error": make_comparison(suite_error="no"),
}


@pytest.mark.parametrize("why", UNPROVEN)
def test_unproven_differences_are_not_claimed(why):
    sentence = plain_sentence(run_of(UNPROVEN[why]))

    assert sentence.startswith("v2 did better than v1 on 198 samples, by 12 points [")
    assert sentence.endswith("(exact), but that v2 is better is not proven; the gate holds.")


def test_arms_that_differ_while_the_mean_is_not_proven_lower():
    assert plain_sentence(run_of(make_comparison(-0.035, -0.087, 0.016, 0.18, p_value=0.001), states=["missed"])) == (
        "v2 did worse than v1 on 198 samples, by 3.5 points [-1.6, 8.7] (exact), but that v2 is worse is not proven; "
        "the gate is missed."
    )


def test_a_run_that_was_cut_short_proves_nothing():
    assert "is not proven" in plain_sentence(run_of(make_comparison(), states=["undecided"], finished=False))


def test_equal_arms_missing_samples_and_missing_intervals_are_described():
    assert plain_sentence(run_of(make_comparison(0.0, -0.02, 0.02, 1.0))).startswith(
        "v2 and v1 are equal on average on 198 samples"
    )
    assert plain_sentence(run_of(make_comparison(None, None, None, None, pairs=0))).startswith(
        "v2 and v1 are not compared: no sample"
    )
    assert "by 12 points [no interval] (exact), but" in plain_sentence(run_of(make_comparison(low=None)))


def test_a_margin_shows_the_level_of_its_interval():
    contrast = Contrast(metric="exact", baseline="v1", alternative="non-inferior", margin=0.05)
    sentence = plain_sentence(run_of(make_comparison(contrast=contrast, proof_adjusted=None, level=0.9)))

    assert sentence.startswith("v2 is better than v1 by 12 points [8, 16] (90 %) (exact)")


def test_amounts_have_no_points_and_lower_is_better_where_it_is():
    pair = make_comparison(0.5, 0.2, 0.8, contrast=Contrast(metric="seconds", baseline="v1"))

    assert plain_sentence(run_of(pair)).startswith("v2 is better than v1 by 0.500 [0.200, 0.800] (seconds); ")


def test_a_metric_without_a_direction_is_neither_better_nor_worse():
    plan = make_plan(metrics=(MetricFacts(name="exact", kind="binary", low=0.0, high=1.0, is_directed=False),))
    sentence = plain_sentence(run_of(make_comparison(-0.12, -0.16, -0.08), plan=plan))

    assert sentence.startswith("v2 minus v1 is -12 points [-16, -8] on 198 samples (exact)")


def test_several_comparisons_are_counted():
    better, worse, open_one = make_comparison(), make_comparison(-0.1, -0.2, -0.05), make_comparison(p=0.5)
    assert plain_sentence(run_of(better, worse, open_one, states=["met", "missed", "undecided"])) == (
        "v2 is proven better than v1 in 1 of 3 comparisons and worse than v1 in 1 of 3 comparisons "
        "(exact better by 12 points [8, 16], exact worse by 10 points [5, 20]); "
        "1 of 3 gates holds, 1 is missed, 1 is undecided."
    )
    assert plain_sentence(run_of(open_one, open_one, states=["met"] * 2)) == (
        "In none of 2 comparisons is v2 proven better or worse than v1 "
        "(exact better by 12 points [8, 16], exact better by 12 points [8, 16]); both gates hold."
    )
    other = replace(better, contrast=Contrast(metric="exact", baseline="v0"))
    assert plain_sentence(run_of(better, other)).startswith(
        "The candidate is proven better than its baseline in 2 of 2 comparisons (exact better by 12 points [8, 16], "
    )


def test_comparisons_of_several_tasks_name_them():
    pair = make_comparison(p=0.5)
    tasks = [make_analysis(make_plan(nodeid=f"imported::{name}"), comparisons=(pair,)) for name in ("pick", "pour")]
    sentence = plain_sentence(make_run(*tasks))

    assert "(pick: exact better by 12 points [8, 16], pour: exact better by 12 points [8, 16])" in sentence


def test_amounts_of_more_than_three_comparisons_are_counted():
    many = plain_sentence(run_of(*[make_comparison(p=0.5)] * 5, states=["met"] * 5))

    assert many.count("exact better by 12 points [8, 16]") == 3
    assert " and 2 more); " in many


def test_differences_without_a_direction_are_stated_without_a_verdict():
    plan = make_plan(metrics=(MetricFacts(name="exact", kind="binary", low=0.0, high=1.0, is_directed=False),))
    estimate = make_comparison(
        -0.12, -0.16, -0.08, contrast=Contrast(metric="exact", baseline="v1", alternative="estimate")
    )

    assert plain_sentence(run_of(estimate, plan=plan, states=[])) == (
        "v2 minus v1 is -12 points [-16, -8] on 198 samples (exact); no gate was decided."
    )
    assert plain_sentence(run_of(estimate, estimate, plan=plan, states=[])).startswith(
        "The better direction is known for none of 2 metrics (v2 minus v1: exact -12 points [-16, -8], "
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
    assert "by 0.42 points [0.02, 0.82] (exact)" in plain_sentence(
        run_of(make_comparison(0.0042, 0.0002, 0.0082, 0.04))
    )
    assert "by 0.0300 points [0.0004, 1.0000]" in plain_sentence(run_of(make_comparison(0.0003, 0.000004, 0.01, 0.04)))


def test_scripted_replies_and_names_with_control_characters():
    arms = (
        Arm(name="v2\x1b[2J", role="candidate", adapter="a", identity="i", simulated=True),
        Arm(name="v1", role="baseline", adapter="b", identity="j"),
    )
    run = make_run(make_analysis(make_plan(), comparisons=[make_comparison(candidate="v2\x1b[2J")]), verdicts=())
    [analysis] = run.experiments
    run = replace(run, experiments=(replace(analysis, plan=replace(analysis.plan, arms=arms)),))
    sentence = plain_sentence(run)

    assert sentence.startswith("With scripted replies, v2\\x1b[2J is better than v1 by ")


def test_a_target_sentence_has_its_numbers(run):
    whole = run()

    assert sentence(whole.verdicts[0], whole.experiments[0], 1) == (
        "met: 0.810 [0.750, 0.858] n=200; unproven: one-sided bound 0.76 < target 0.80; "
        "proof needs about n=12,000 at this estimate (80 % power)"
    )


def test_a_p_value_is_called_adjusted_only_beside_others(run):
    whole = run()

    assert "n=198, adjusted p 0.180 (interval unadjusted); " in sentence(whole.verdicts[2], whole.experiments[0], 2)


def test_an_unmeasured_claim_has_its_reason(run):
    whole = run()
    unscored = replace(whole.verdicts[0], subject="typo >= 1", state="undecided", reason="no number")

    assert sentence(unscored, whole.experiments[0], 1) == "undecided: no number"


def test_scripted_replies_are_marked_as_simulated(run, analysis, plan):
    arms = tuple(replace(arm, simulated=True) for arm in plan().arms)
    whole = run(analysis(plan(arms=arms)))

    assert sentence(whole.verdicts[1], whole.experiments[0], 1).startswith(
        "met (simulated): 1.250 [1.100, inf] n=198; "
    )


def foresight(
    detectable=0.0617, unit="points", needed=None, assumption="10 % of pairs differ", units=200, **contrast
) -> DetectableEffect:
    return DetectableEffect(
        contrast=Contrast(**{"metric": "exact", "baseline": "v1", **contrast}), detectable=detectable, unit=unit,
        assumption=assumption, needed=needed, units=units,
    )  # fmt: skip


ARMS = "crucible: test_sums: v2 vs v1, 200 samples x 2 arms = 400 replies"
ASSUMED = "  (80 % power, if 10 % of pairs differ)"


POINTS = "can detect differences of 6.2 points or more"
ANNOUNCED = {
    "bits": (foresight(), POINTS),
    "margin": (foresight(needed=1396, alternative="non-inferior", margin=0.02), "margin 0.02 needs about n=1,396"),
    "resolves": (foresight(needed=200, relevant=0.1), f"{POINTS}; enough samples for the\n    relevant 0.1"),
    "relevant": (
        foresight(needed=201, relevant=0.1, detectable=None),
        "too few samples for the relevant 0.1, which needs about n=201",
    ),
    # What counts is the slice, not the session.
    "relevant-slice": (
        foresight(needed=101, relevant=0.1, detectable=None, units=40),
        "too few samples for the relevant 0.1, which needs about n=101",
    ),
    "unplanned": (foresight(relevant=5), POINTS),
    "scores": (foresight(detectable=0.199, unit="sd"), "can detect differences of 0.2 sd or more"),
    "nothing": (foresight(detectable=None), "too few samples to detect a difference"),
}


@pytest.mark.parametrize(("effect", "line"), ANNOUNCED.values(), ids=ANNOUNCED)
def test_an_experiment_is_announced_with_a_line_for_each_metric(plan, effect, line):
    assert announcement(plan(), []) == ARMS
    announced = f"{ARMS}\n  exact: {line}\n{ASSUMED}"
    assert announcement(plan(), [effect]) == announcement(plan(), [effect, foresight(baseline="v0")]) == announced


def test_metrics_that_share_an_assumption_stand_above_it(plan):
    effects = [foresight(metric=metric) for metric in ("a", "b")]
    deviations = foresight(detectable=0.199, unit="standard deviations", assumption="")

    assert announcement(plan(), [*effects, deviations]).splitlines() == [
        ARMS, f"  a: {POINTS}", f"  b: {POINTS}", ASSUMED,
        "  exact: can detect differences of 0.2 standard deviations or more", "  (80 % power)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "effect", "lines"),
    [
        (
            {"groups": 40},
            foresight(needed=201, relevant=0.1, is_relative=True, detectable=None, units=40),
            [
                "crucible: test_sums: v2 vs v1, 200 samples in 40 groups x 2 arms = 400 replies",
                "  exact: too few groups for the relevant 10 %, which needs about groups=201",
                ASSUMED,
            ],
        ),
        (
            {"selected": 50, "groups": 12, "repeats": 3},
            foresight(detectable=None),
            [
                "crucible: test_sums: v2 vs v1, 50 of 200 samples in 12 groups x 3 repeats x 2",
                "    arms = 300 replies",
                "  exact: too few groups to detect a difference",
                ASSUMED,
            ],
        ),
        (
            {"groups": 3},
            foresight(),
            [
                "crucible: test_sums: v2 vs v1, 200 samples in 3 groups x 2 arms = 400 replies",
                "  exact: 3 groups are too few to compare by, 5 at least",
            ],
        ),
    ],
    ids=["relevant-groups", "parts", "few-groups"],
)
def test_an_experiment_in_groups_is_announced_with_their_number(plan, facts, effect, lines):
    assert announcement(plan(**facts), [effect]).splitlines() == lines


def test_the_slices_of_a_field_share_a_line_where_they_are_many(plan):
    by = By((Field("topic"),))
    effects = [foresight(k / 100 if k > 20 else None, by=by, slice=f"t{k}") for k in range(19, 26)]

    assert announcement(plan(), [*effects, foresight()]).splitlines() == [
        ARMS,
        "  exact by topic, 7 slices: can detect differences of 21 points or more at best,",
        "    of 25 points or more at worst; 2 slices have too few samples to detect a",
        "    difference",
        "  (80 % power)",
        "  exact: can detect differences of 6.2 points or more",
        ASSUMED,
    ]
    assert len(announcement(plan(), effects[:6]).splitlines()) == 8
    margins = [foresight(None, needed=100 + k, margin=0.05, by=by, slice=f"t{k}") for k in range(7)]
    assert announcement(plan(), margins).splitlines()[1] == (
        "  exact by topic, 7 slices: margin 0.05 needs about n=106 in each"
    )


@pytest.mark.parametrize("name", ["x" * 300, "https-host-" * 30, "a name of words " * 20])
def test_no_line_of_a_plan_is_wider_than_80_columns(plan, name):
    arms = tuple(replace(arm, name=name) for arm in plan().arms)
    lines = announcement(plan(arms=arms), [foresight(metric=name, needed=1396, margin=0.02)], [name], replayed=True)

    assert max(map(len, lines.splitlines())) <= 80
    assert "".join(lines.split()).count("".join(name.split())) == 4


def test_stored_replies_are_not_counted_as_requests(plan):
    v2, v1 = plan().arms
    stored = replace(v1, name="run:f00", stored_run="f00")
    named = "crucible: test_sums: v2 vs"

    assert announcement(plan(arms=(v2, stored)), []) == f"{named} run:f00, 200 samples"
    assert announcement(plan(arms=(v2, v1, stored)), []) == (
        f"{named} v1 vs run:f00, 200 samples x 2 arms = 400 replies"
    )


def test_unused_baselines_are_named(plan):
    assert announcement(plan(arms=plan().arms[:1]), [], ["v1", "v0"]) == (
        "crucible: test_sums: v2, 200 samples\n"
        "  v1, v0 not queried: the test compares nothing (@pytest.mark.ab_compare)"
    )


def test_a_plan_of_one_arm_shows_no_product(plan):
    assert announcement(plan(arms=plan().arms[:1]), []) == "crucible: test_sums: v2, 200 samples"


@pytest.mark.parametrize(
    ("declared", "end"),
    [
        (0, "inputs: equal inputs are one group (crucible_equal_inputs)"),
        (25, "inputs: equal inputs are one group, which joins 25 declared groups (crucible_equal_inputs)"),
    ],
)
def test_groups_of_equal_inputs_have_their_reason(plan, declared, end):
    grouped = EQUAL_INPUTS.on(plan(groups=20), EqualInputs(samples=120, questions=15, declared=declared))

    lines = " ".join(announcement(grouped, []).split())

    assert (
        f"200 samples in 20 groups x 2 arms = 400 replies 20 groups, because 120 of the samples have only 15 different {end}"
        in lines
    )


def test_a_target_over_uneven_repeats_says_what_counts_alike():
    [result, *_] = make_analysis(make_plan()).targets
    estimate = replace(result.estimate, n=240, replies=None, uneven="727 replies, each sample counts alike")
    analysis = replace(make_analysis(make_plan()), targets=(replace(result, estimate=estimate),))
    verdict = Verdict(nodeid="t", subject=result.target.text, kind="target", state="met", proven=False, reason="")

    assert sentence(verdict, analysis, 1).endswith(" n=240 (727 replies, each sample counts alike)")
