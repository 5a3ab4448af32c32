"""Error rates of the methods with a known truth: seeded simulations of typical evaluations.

Every limit is the nominal rate, or a worst cell that is named beside it, plus four standard errors of the simulation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from evals import UNIT
from run_sizes import choose_runs
from scipy.special import ndtri
from simulation import ALPHA, FEW_DRAWS, at_least, at_most, line

from pytest_crucible.stats import compare, difference_bounds, mean_bound
from pytest_crucible.stats.comparing import compare_declared_arms
from pytest_crucible.stats.inputs import declare_arm, declare_pairs
from pytest_crucible.stats.proportions.exact import paired_exact_bound, paired_exact_test
from pytest_crucible.stats.resampling.draws import MonteCarlo

pytestmark = pytest.mark.slow


def compare_runs(candidate, baseline, *, kind, clusters=None):
    """Every run with few draws, of a seed of its own."""
    return [
        compare_declared_arms(
            replace(
                declare_pairs(entry, other, kind=kind, bounds=UNIT, clusters=clusters),
                monte_carlo=MonteCarlo(seed=seed, draws=FEW_DRAWS, finest=1 / (FEW_DRAWS + 1)),
            ),
            alternative="two-sided",
            alpha=ALPHA,
        )
        for seed, (entry, other) in enumerate(zip(candidate, baseline, strict=True))
    ]


def bound_runs(candidate, baseline, **facts):
    return difference_bounds(candidate, baseline, **facts)


@cache
def exact(gained: int, lost: int, n: int) -> tuple[float, float, float]:
    result = paired_exact_test(gained, lost, n)
    return result.interval.low, result.interval.high, result.p_value


def correlated_bits(rng, runs, n, mean, effect):
    """Both arms share the difficulty of each question."""
    difficulty = rng.beta(2 * mean, 2 * (1 - mean), (runs, n))
    better = difficulty + effect / (1 - mean) * (1 - difficulty)
    return (rng.random((runs, n)) < better).astype(float), (rng.random((runs, n)) < difficulty).astype(float)


@pytest.mark.parametrize("n", [10, 30, 100, 300])
@pytest.mark.parametrize(("mean", "effect"), [(0.7, 0.0), (0.95, 0.0), (0.7, 0.1), (0.9, 0.05)])
def test_paired_bits_keep_size_and_coverage(n, mean, effect):
    """Both hold exactly; `test_exact_rates` enumerates them for small n."""
    runs = choose_runs(20_000)
    candidate, baseline = correlated_bits(np.random.default_rng([1, n]), runs, n, mean, effect)
    gained, lost = (candidate > baseline).sum(1), (candidate < baseline).sum(1)
    answers = [exact(int(b), int(c), n) for b, c in zip(gained, lost, strict=True)]

    assert at_least(sum(low <= effect <= high for low, high, _ in answers), runs, 0.95)
    if effect == 0:
        assert at_most(sum(p < ALPHA for _, _, p in answers), runs, 0.05)
    for run in range(20):
        result = compare(candidate[run], baseline[run], kind="binary", bounds=UNIT)
        assert (result.interval.low, result.interval.high, result.p_value) == answers[run]


@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize("trade", [False, True], ids=["exchangeable", "equal means, other shape"])
def test_zero_inflated_scores_keep_size_and_coverage(n, trade):
    """The second shape answers less often and better: 0.70 * 0.70 = 0.55 * 0.8909. Its replies are not alike."""
    runs, rng = choose_runs(6000), np.random.default_rng([2, n, trade])
    zeros, mean = (0.45, 0.49 / 0.55) if trade else (0.30, 0.70)
    shared = rng.normal(size=(runs, n))

    def arm(share_of_zeros, mean_of_rest):
        answered = shared + rng.normal(size=(runs, n)) > math.sqrt(2) * ndtri(share_of_zeros)
        return np.where(answered, rng.beta(10 * mean_of_rest, 10 * (1 - mean_of_rest), (runs, n)), 0.0)

    candidate, baseline = arm(zeros, mean), arm(0.30, 0.70)
    results = compare_runs(candidate, baseline, kind="bounded")

    if not trade:
        assert at_most(sum(result.p_value <= ALPHA for result in results), runs, ALPHA)
    assert at_most(sum(result.proof_p <= ALPHA for result in results), runs, ALPHA)
    assert at_least(sum(result.interval.low <= 0 <= result.interval.high for result in results), runs, 0.95)


@pytest.mark.parametrize("groups", [6, 10, 40])
@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_clusters_of_five_keep_size_and_coverage(groups, kind):
    """A whole passage suits one arm or the other. Ignoring the clusters would reject in 10-18 %."""
    runs, rng, n = choose_runs(6000), np.random.default_rng([3, groups]), 5 * groups
    clusters = np.repeat(np.arange(groups), 5)

    def arm():
        return shared + 0.9 * rng.normal(size=(runs, groups))[:, clusters] + rng.normal(size=(runs, n))

    shared = rng.normal(size=(runs, groups))[:, clusters] + 0.5 * rng.normal(size=(runs, n))
    candidate, baseline = arm(), arm()
    if kind == "binary":
        candidate, baseline = (candidate > 0).astype(float), (baseline > 0).astype(float)
    else:
        candidate, baseline = 1 / (1 + np.exp(-candidate)), 1 / (1 + np.exp(-baseline))
    results = compare_runs(candidate, baseline, kind=kind, clusters=clusters)

    assert at_most(sum(result.p_value <= ALPHA for result in results), runs, ALPHA)
    assert at_most(sum(result.proof_p <= ALPHA for result in results), runs, ALPHA)
    assert at_least(sum(result.interval.low <= 0 <= result.interval.high for result in results), runs, 0.95)


@pytest.mark.parametrize("n", [20, 50, 100, 200])
@pytest.mark.parametrize("margin", [0.02, 0.05, 0.10])
@pytest.mark.parametrize("gains", [0.0, 0.05, 0.15])
def test_a_binary_candidate_at_the_margin_rarely_passes(n, margin, gains):
    """Non-inferiority at its edge: the candidate loses exactly the margin. It holds exactly."""
    runs, rng = choose_runs(20_000), np.random.default_rng([4, n])
    cells = rng.multinomial(n, [gains, gains + margin, 1 - 2 * gains - margin], runs)
    passes = sum(_exact_low(int(gained), int(lost), n) > -margin for gained, lost, _ in cells)

    assert at_most(passes, runs, 0.05)


@pytest.mark.parametrize("n", [20, 50, 100, 200, 500])
@pytest.mark.parametrize(("rate", "smallest"), [(0.05, 0.6), (0.02, 0.6), (0.10, 0.3)])
def test_a_graded_candidate_with_rare_disasters_rarely_passes(n, rate, smallest):
    """Losses of `smallest` to 1 in a few answers. (All-or-nothing losses of 2 % at n=200 would give .107.)"""
    runs, rng, margin = choose_runs(6000), np.random.default_rng([5, n]), rate * (smallest + 1) / 2
    losses = (rng.random((runs, n)) < rate) * rng.uniform(smallest, 1, (runs, n))
    passes = sum(bound_runs(1 - loss, np.ones(n), kind="bounded", bounds=UNIT).low > -margin for loss in losses)

    assert at_most(passes, runs, 0.08)


@pytest.mark.parametrize("n", [10, 50, 200])
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95, 0.99])
def test_clopper_pearson_bounds_never_err_too_often(n, rate):
    runs = choose_runs(20_000)
    successes = np.random.default_rng([6, n]).binomial(n, rate, runs)
    bounds = {
        (int(count), side): mean_bound([1] * count + [0] * (n - count), kind="binary", bounds=UNIT, side=side).value
        for count in np.unique(successes)
        for side in ("lower", "upper")
    }

    assert at_most(sum(bounds[int(count), "lower"] > rate for count in successes), runs, ALPHA)
    assert at_most(sum(bounds[int(count), "upper"] < rate for count in successes), runs, ALPHA)


def clustered_bits(rng, runs, sizes, rate, correlation):
    """Beta-binomial clusters; a correlation of 1 makes a cluster right or wrong as a whole."""
    odds = (1 - correlation) / correlation
    shape = (runs, len(sizes))
    chances = rng.beta(rate * odds, (1 - rate) * odds, shape) if odds else (rng.random(shape) < rate).astype(float)
    return (rng.random((runs, int(np.sum(sizes)))) < np.repeat(chances, sizes, axis=1)).astype(float)


SIZES = {"10 of 5": [5] * 10, "20 of 5": [5] * 20, "60 of 5": [5] * 60, "20 of 1 to 9": [1, 3, 5, 7, 9] * 4}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("correlation", [0.2, 0.5, 1.0])
def test_korn_graubard_bounds_of_clustered_bits_never_err_too_often(sizes, rate, correlation):
    runs, clusters = choose_runs(4000), np.repeat(np.arange(len(sizes)), sizes)
    values = clustered_bits(np.random.default_rng([7, len(sizes)]), runs, sizes, rate, correlation)
    bound = line("bound", "one arm", "binary", clustered=True).function
    arms = [declare_arm(row, kind="binary", bounds=UNIT, clusters=clusters) for row in values]

    assert at_most(sum(bound(row, ALPHA, "lower") > rate for row in arms), runs, ALPHA)
    assert at_most(sum(bound(row, ALPHA, "upper") < rate for row in arms), runs, ALPHA)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("correlation", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_disasters_that_hit_whole_clusters_rarely_pass(sizes, correlation, rate):
    """The margin gate of clustered pairs, at the margin. The augmented CR2 erred in up to .07."""
    runs, clusters = choose_runs(4000), np.repeat(np.arange(len(sizes)), sizes)
    losses = clustered_bits(np.random.default_rng([8, len(sizes)]), runs, sizes, rate, correlation)
    bound = line("margin", "pairs", "binary", clustered=True).function
    facts = {"kind": "binary", "bounds": UNIT, "clusters": clusters}
    right = np.ones(clusters.size)
    pairs = (declare_pairs(1 - loss, right, **facts) for loss in losses)
    passes = sum(bound(arms, ALPHA, "lower") > -rate + 1e-9 for arms in pairs)

    assert at_most(passes, runs, ALPHA)


@pytest.mark.parametrize("n", [10, 50, 100])
def test_bounds_of_scores_never_err_too_often(n):
    """A score with 8 % zeros: plain t errs in 31, 11 and 8 %."""
    runs, rng = choose_runs(6000), np.random.default_rng([9, n])
    scores = np.where(rng.random((runs, n)) < 0.08, 0.0, rng.beta(9, 1, (runs, n)))
    errors = sum(mean_bound(row, kind="bounded", bounds=UNIT).value > 0.92 * 0.9 for row in scores)

    assert at_most(errors, runs, ALPHA)


@cache
def _exact_low(gained: int, lost: int, n: int) -> float:
    return paired_exact_bound(gained, lost, n, alpha=ALPHA, side="lower")
