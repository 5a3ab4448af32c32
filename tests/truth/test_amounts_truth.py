"""Amounts and values without ends, where the truth is known: as functions at small alphas, and in whole sessions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from amount_evals import ALPHAS, MEANS, SHAPES, SIZES, mean_errors, ratio_errors, ratio_power, t_errors
from run_sizes import choose_runs
from simulation import at_least, at_most
from test_sessions import ALPHA, answers, plan

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.analyse.next_run import detectable_difference
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.measures import ratios
from pytest_crucible.measures.row import Prepared
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import MetricFacts

pytestmark = pytest.mark.slow

RUNS = choose_runs(2000)
SECONDS = MetricFacts(name="score", kind="positive", low=0.0, direction="lower")
NUMBER = MetricFacts(name="score")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_ratio_is_beyond_its_bounds_at_most_as_often_as_alpha_says(name, n):
    for alpha, share in ratio_errors(name, n, RUNS, seed=1).items():
        assert at_most(round(share * RUNS), RUNS, alpha), (alpha, share)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_proven_to_be_large_at_most_as_often_as_alpha_says(name, n):
    for alpha, (share, *_) in mean_errors(name, n, RUNS, seed=2).items():
        assert at_most(round(share * RUNS), RUNS, alpha), (alpha, share)


def test_methods_that_are_not_offered_miss_their_level():
    """A t of logarithms and an upper bound of a mean miss their level: docs/decisions/0024."""
    assert t_errors("2 % take 15 times as long", 50, 500, seed=3)[0.005] > 0.2
    assert mean_errors("lognormal, sigma 1.5", 200, 500, seed=3)[0.05][2] > 0.1
    assert mean_errors("90 % zeros", 50, 500, seed=3)[0.05][2] > 0.15
    assert mean_errors("5 % zeros", 20, 500, seed=3)[0.05][1] > 0.3


@pytest.mark.parametrize(
    ("spread", "ratio", "n", "least"), [(0.5, 1.2, 300, 0.95), (0.5, 1.5, 50, 0.85), (0.2, 1.1, 300, 0.95)]
)
def test_a_slowdown_is_found(spread, ratio, n, least):
    share, _ = ratio_power(spread, ratio, n, 400, seed=4)

    assert at_least(round(400 * share), 400, least)


@pytest.mark.parametrize("n", [50, 300])
def test_power_at_the_printed_ratio_is_80_per_cent(n):
    """A first run of equal arms prints it; new runs with that ratio find it."""
    rng, runs, count = np.random.default_rng([5, n]), 300, 0
    printed = [detectable_difference(compare(rng.normal(0.0, 0.4, n)), ALPHA) for _ in range(40)]
    ratio = float(np.median(printed))
    for _ in range(runs):
        count += compare(rng.normal(ratio, 0.4, n)).p_value <= ALPHA

    assert 0.75 < count / runs < 0.85


def compare(logs):
    arms = (Prepared(values=np.exp(values), kind="positive", bounds=(0.0, math.inf)) for values in (logs, 0 * logs))
    return ratios.compare_geometric_means(*arms, ALPHA)


# -- whole sessions ------------------------------------------------------------------------------------------------


def session(candidate, baseline, facts, *, family_size=1, target=None, metric="score", **claim):
    """The verdicts of one experiment on given values, in a session of so many comparisons."""
    n = len(candidate)
    planned = replace(
        plan(0, "bits", n),
        metrics=(facts,),
        contrasts=(replace(parse_contrast(metric, **claim), baseline="v1"),),
        targets=() if target is None else (parse_target(target),),
    )
    inputs = AnalysisInputs(
        plan=planned,
        answers=tuple(answers(values, np.zeros(n, dtype=bool), bits=False) for values in (candidate, baseline)),
        groups=[None] * n,
        finished=True,
        known_kinds={},
    )
    analysis = analyse(inputs, score_table(inputs), alpha=ALPHA, family_size=family_size)
    return decide_verdicts(
        adjust_p_values([analysis], family_size=family_size), alpha=ALPHA, strict=False, family_size=family_size
    )


def amounts(name, rng, n):
    """Both arms' amounts on the same samples; equal in the truth, whatever the shape."""
    load = rng.lognormal(0.0, 0.8, n)
    logs, truth = SHAPES[name](rng, n)
    return load * np.exp(logs - truth), load


@pytest.mark.parametrize("family_size", [1, 10])
@pytest.mark.parametrize("n", [50, 300])
@pytest.mark.parametrize("name", SHAPES)
def test_a_session_of_equal_geometric_means_claims_nothing(name, n, family_size):
    rng, runs = np.random.default_rng([6, n]), choose_runs(200)
    claimed = sum(session(*amounts(name, rng, n), SECONDS, family_size=family_size)[0].proven for _ in range(runs))

    assert at_most(claimed, runs, ALPHA / family_size)


@pytest.mark.parametrize("zeros", [1, 30])
def test_zeros_claim_nothing_and_are_an_error(zeros):
    rng = np.random.default_rng([7, zeros])
    ours, theirs = (np.where(np.arange(300) < zeros, 0.0, rng.lognormal(0, s, 300)) for s in (1.5, 0.5))
    (verdict,) = session(ours, theirs, SECONDS)

    assert (verdict.state, verdict.proven, verdict.suite_error) == ("undecided", False, True)


@pytest.mark.parametrize("n", [50, 300])
@pytest.mark.parametrize("zeros", [0.9, 0.4, 0.0])
def test_ratios_of_means_of_other_shapes_are_not_proven(zeros, n):
    """Equal means of seconds up to 60: one arm is constant, apart from zeros, and the other mostly 0 and sometimes at the limit."""
    rng, runs, claimed = np.random.default_rng([8, n]), choose_runs(200), 0
    for _ in range(runs):
        ours = np.where(rng.random(n) < zeros, 0.0, 6.0)
        theirs = np.where(rng.random(n) < 0.1 * (1 - zeros), 60.0, 0.0)
        claimed += session(ours, theirs, replace(SECONDS, high=60.0), metric="mean(score)")[0].proven

    assert at_most(claimed, runs, ALPHA)


@pytest.mark.parametrize("n", [50, 300])
@pytest.mark.parametrize("name", SHAPES)
def test_a_candidate_at_the_margin_rarely_passes(name, n):
    rng, runs, passed = np.random.default_rng([8, n]), choose_runs(200), 0
    for _ in range(runs):
        ours, theirs = amounts(name, rng, n)
        passed += session(1.2 * ours, theirs, SECONDS, margin="20 %")[0].state == "met"

    assert at_most(passed, runs, ALPHA)


@pytest.mark.parametrize("facts", [NUMBER, replace(NUMBER, kind="count", low=0.0)], ids=["score()", "count"])
@pytest.mark.parametrize("claim", [{}, {"alternative": "superior"}, {"margin": 0.5}], ids=str)
def test_a_difference_of_means_without_ends_is_never_proven(claim, facts):
    """Bounds need ends. Whether the replies differ at all is tested without them."""
    rng = np.random.default_rng(9)
    for shift in (0.0, 50.0):
        ours = rng.lognormal(0.0, 1.5, 300) + shift
        theirs = math.exp(1.0) * rng.lognormal(0.0, 0.5, 300)
        (verdict,) = session(ours, theirs, facts, **claim)

        assert not verdict.proven
        assert verdict.state == "undecided" or "margin" not in claim
        assert "declare bounds" in verdict.reason or "margin" not in claim


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("name", MEANS)
def test_a_target_on_a_mean_is_rarely_missed_for_certain_at_the_truth(name, n):
    rng, runs, proven, low = np.random.default_rng([10, n]), choose_runs(300), 0, 0
    for _ in range(runs):
        values, truth = MEANS[name](rng, n)
        verdict, _ = session(values, values, SECONDS, target=f"score <= {truth!r}")
        proven += verdict.proven
        low += verdict.proven and verdict.state == "met"

    assert at_most(proven, runs, ALPHA)
    assert low == 0


def test_every_alpha_of_holm_is_simulated():
    assert min(ALPHAS) <= ALPHA / 10
