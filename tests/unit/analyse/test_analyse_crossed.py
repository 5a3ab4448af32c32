"""Estimates, bounds and differences over random factors: what they count, and when there is no verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from answer_builders import LOST, analysis_inputs, reply_rows

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts

RNG = np.random.default_rng(16)
SHARE = MetricFacts(name="ok", kind="bounded", low=0.0, high=1.0)


def run_analysis(*arms, contrast="ok", target="ok >= 0.3", rounds=None, facts=SHARE, groups=None, fixed=(), **claims):
    """The analysis of arms, each samples x repeats, in so many rounds; NaN is lost."""
    repeats = arms[0].shape[1]
    rows = ([[LOST if math.isnan(value) else value for value in row] for row in values] for values in arms)
    inputs = analysis_inputs(
        *(reply_rows(of_arm, "ok") for of_arm in rows), n=len(arms[0]), repeats=repeats, rounds=rounds or repeats, fixed=fixed,
        metrics=(facts,), targets=[target], groups=groups, open_metrics=False,
        contrasts=[replace(parse_contrast(contrast, **claims), baseline="v1") for _ in arms[1:]],
    )  # fmt: skip
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def compare(*arms, **how):
    return run_analysis(*arms, **how).comparisons[0]


def noisy(rounds=4, deviation=0.1, n=40, shift=0.0):
    """Shares whose level differs from round to round."""
    return np.clip(0.5 + shift + RNG.normal(0, deviation, rounds) + RNG.normal(0, 0.1, (n, rounds)), 0, 1)


def test_a_comparison_is_that_of_crossed_factors():
    ours, theirs = noisy(), noisy()
    mean = stats.crossed_difference(ours, theirs, ["rounds"])
    interval = stats.crossed_interval(mean, bounds=(-1.0, 1.0))

    comparison = compare(ours, theirs)

    assert comparison.difference == pytest.approx(mean.estimate)
    assert (comparison.interval.low, comparison.interval.high) == pytest.approx((interval.low, interval.high))
    assert comparison.p_value == pytest.approx(stats.crossed_p_value(mean))
    assert (comparison.method, comparison.pairs) == ("crossed t", 40)
    assert comparison.detectable == pytest.approx(stats.detectable_over_sources(mean.sources))
    assert comparison.needed == stats.samples_over_sources(mean.sources, abs(mean.estimate), alpha=0.025)
    assert comparison.proof_p == pytest.approx(stats.crossed_proof_p(mean, bounds=(-1.0, 1.0)))
    assert comparison.evidence.method == "gaffke over levels"
    assert [effect.interval for effect in comparison.effects] == [None] * len(comparison.effects)


def test_the_direction_of_a_metric_reverses_the_signs():
    ours, theirs = noisy(), noisy()
    lower = MetricFacts(name="ok", kind="bounded", low=0.0, high=1.0, direction="lower")

    up, down = compare(ours, theirs), compare(ours, theirs, facts=lower)

    assert up.difference == pytest.approx(-down.difference)
    assert (up.interval.low, up.interval.high) == pytest.approx((-down.interval.high, -down.interval.low))
    assert up.evidence.observed.lower == pytest.approx(-down.evidence.observed.upper)


def test_repeats_of_a_round_are_averaged_before_rounds_are():
    ours, theirs = noisy(rounds=6), noisy(rounds=6)
    halves = [arm.reshape(40, 3, 2).mean(axis=2) for arm in (ours, theirs)]

    in_rounds, of_means = compare(ours, theirs, rounds=3), compare(*halves)

    assert in_rounds.interval.low == pytest.approx(of_means.interval.low)
    assert in_rounds.p_value == pytest.approx(of_means.p_value)


def test_fixed_rounds_are_not_counted():
    ours, theirs = noisy(), noisy()

    fixed = run_analysis(ours, theirs, fixed=("rounds",))

    assert fixed.comparisons[0].method == "sign flips"
    assert [result.method for result in fixed.estimates] == ["t", "t"]


def test_a_rate_counts_the_replies_that_hold():
    ours = noisy()
    mean = stats.crossed_mean((ours >= 0.5).astype(float), ["rounds"])

    result = run_analysis(ours, target="rate(ok >= 0.5) >= 0.1").targets[0]

    assert result.estimate.method == "gaffke over levels"
    assert result.estimate.interval.low == pytest.approx(stats.crossed_interval(mean, bounds=(0.0, 1.0)).low)
    assert result.evidence.observed.lower is not None
    assert result.needed is None


def test_lost_replies_widen_the_bounds():
    ours, theirs = noisy(shift=0.1, deviation=0.01), noisy(deviation=0.01)
    ours[0, 1] = theirs[3, 2] = math.nan

    comparison = compare(ours, theirs)

    assert comparison.lost == 2
    assert comparison.evidence.worst.value < comparison.evidence.observed.value < comparison.evidence.best.value
    assert comparison.evidence.worst.lower < comparison.evidence.observed.lower


def test_a_lost_latency_could_be_anything():
    seconds = MetricFacts(name="ok", kind="unbounded", low=0.0, direction="lower")
    ours, theirs = noisy(), noisy()
    ours[0, 0] = math.nan

    comparison = compare(ours, theirs, facts=seconds, target="ok <= 2")

    assert (comparison.evidence.worst.value, comparison.evidence.worst.lower) == (None, None)


@pytest.mark.parametrize("kind", ["unbounded", "positive"])
def test_ratios_and_metrics_without_bounds_are_not_proven_over_rounds(kind):
    seconds = MetricFacts(name="ok", kind=kind, low=0.0 if kind == "positive" else -math.inf, direction="lower")
    ours, theirs = 0.1 + noisy(deviation=0.01), 1.1 + noisy(deviation=0.01)
    analysis = run_analysis(ours, theirs, facts=seconds, target="ok <= 2")

    (item,), (target,) = analysis.comparisons, analysis.targets
    observed = item.evidence.observed
    assert (observed.p_value, observed.lower, observed.upper, item.detectable, item.needed) == (None,) * 5
    assert ("declare bounds" if kind == "unbounded" else "declare them fixed") in item.note
    assert (target.evidence.observed.lower, target.evidence.observed.upper) == (None, None)
    assert "declare bounds" in target.note


def test_groups_are_counted_beside_rounds():
    groups = [str(k // 4) for k in range(40)]
    shared = np.repeat(RNG.normal(0, 0.2, 10), 4)[:, None]
    ours, theirs = np.clip(noisy() + shared, 0, 1), noisy()

    alone, together = compare(ours, theirs), compare(ours, theirs, groups=groups)

    assert together.clusters == 10
    assert together.interval.low < alone.interval.low


def test_too_few_groups_have_a_note():
    comparison = compare(noisy(), noisy(), groups=[str(k // 10) for k in range(40)])

    assert (comparison.p_value, comparison.interval) == (None, None)
    assert "4 clusters" in comparison.note


def test_two_rounds_have_an_interval_and_no_verdict():
    result = run_analysis(noisy(2), noisy(2))
    comparison, target = result.comparisons[0], result.targets[0]

    assert comparison.interval is not None
    assert (comparison.p_value, comparison.evidence.observed.lower) == (None, None)
    assert (target.evidence.observed.lower, target.evidence.observed.upper) == (None, None)
    for note in (comparison.note, target.note):
        assert note.startswith("2 rounds cannot stand for others like them: a random factor needs at least 3 levels")


def test_a_round_that_was_lost_does_not_count():
    ours, theirs = noisy(3), noisy(3)
    ours[:, 2] = math.nan

    assert compare(ours, theirs).note.startswith("2 rounds cannot stand for others")


def test_a_percentile_has_no_interval_that_counts_rounds():
    result = run_analysis(noisy(), target="p95(ok) <= 0.9").targets[0]

    assert result.estimate.interval is None
    assert (result.evidence.observed.lower, result.evidence.observed.upper) == (None, None)
    assert result.note == (
        "a percentile has no interval that counts rounds: declare them fixed, or make the claim about a mean or a rate"
    )


def test_equal_replies_are_judged_by_their_number():
    comparison = compare(np.ones((40, 3)), np.zeros((40, 3)))

    assert comparison.p_value < 0.001 < 0.05 < comparison.proof_p


@pytest.mark.parametrize(
    ("claim", "levels"),
    [
        ({"alternative": "superior"}, 5),
        ({"margin": 0.2}, 4),
        ({"alternative": "superior", "margin": 0.5}, 3),
        ({"alternative": "equivalent", "margin": 0.5}, 5),
    ],
)
def test_too_few_levels_name_the_number_that_it_takes(claim, levels):
    """A claim, or its opposite, in the most favourable case: all levels at the end of the range."""
    few = compare(noisy(3, 0.01), noisy(3, 0.01), **claim)
    enough = compare(noisy(levels, 0.01), noisy(levels, 0.01), **claim)

    assert (few.evidence.observed.lower is None) == (levels > 3)
    assert enough.evidence.observed.lower is not None
    if levels > 3:
        assert few.note == (
            "3 rounds cannot prove this of others like them, whatever the replies, because rare ones may be far worse: it takes "
            f"{levels} or more; run with --crucible-rounds={levels} or more, or declare fixed='rounds'"
        )


def test_many_levels_prove_what_three_cannot():
    few, many = (compare(noisy(k, 0.01, shift=0.3), noisy(k, 0.01), margin=0.1) for k in (3, 30))

    assert few.evidence.observed.lower is None or few.evidence.observed.lower < -0.1
    assert many.evidence.observed.lower > -0.1
    assert many.interval.low == many.evidence.observed.lower


def test_a_reach_narrows_the_bounds_and_not_those_of_lost_replies():
    """A lost sample may lie anywhere in the range: single replies are counted, and none of them has a pair to limit it."""
    base = np.clip(0.5 + RNG.normal(0, 0.05, (60, 40)), 0.2, 0.8)
    better = np.clip(base + 0.05 + RNG.normal(0, 0.02, (60, 40)), 0, 1)
    lost = better.copy()
    lost[3] = math.nan
    plain, reached = (compare(better, base, facts=facts, margin=0.01) for facts in (SHARE, replace(SHARE, reach=0.2)))
    open_ended = replace(SHARE, kind="unbounded", low=-math.inf, high=math.inf, reach=0.2)

    assert plain.evidence.observed.lower < reached.evidence.observed.lower < reached.difference
    assert compare(better, base, facts=open_ended, margin=0.01).evidence.observed.lower > -0.01
    with_lost = [compare(lost, base, facts=facts, margin=0.01).evidence for facts in (SHARE, replace(SHARE, reach=0.2))]
    assert with_lost[0].worst.lower == pytest.approx(with_lost[1].worst.lower)
    assert compare(lost, base, facts=open_ended, margin=0.01).evidence.worst.lower is None
