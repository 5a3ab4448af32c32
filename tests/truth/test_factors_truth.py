"""Comparisons over random factors where the truth is known: false alarms at .05 and .005, bounds, coverage and power.

`python -m benchmarks.factors` prints what is held here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factor_evals import FACTOR_EVALS, FactorEval, both, prompts, rounds
from run_sizes import choose_runs
from simulation import at_least, at_most

from pytest_crucible.stats import (
    compare,
    crossed_bounds,
    crossed_difference,
    crossed_interval,
    crossed_p_value,
    detectable_over_sources,
)
from pytest_crucible.stats.factors.crossed import CrossedMean

pytestmark = pytest.mark.slow

RUNS = choose_runs(1000)
PLANNED = choose_runs(500)


def compare_crossed(case: FactorEval, runs: int = RUNS, seed: int = 0) -> list[CrossedMean]:
    return [
        crossed_difference(candidate, baseline, list(case.levels), case.clusters())
        for candidate, baseline in case.draw(runs, seed)
    ]


@pytest.mark.parametrize("name", FACTOR_EVALS)
def test_arms_that_differ_by_their_drawn_levels_alone_are_rarely_called_different(name):
    p_values = np.array([crossed_p_value(mean) for mean in compare_crossed(FACTOR_EVALS[name])])

    assert at_most(int((p_values <= 0.05).sum()), RUNS, 0.05)
    assert at_most(int((p_values <= 0.005).sum()), RUNS, 0.005)


@pytest.mark.parametrize(
    "case", [rounds(3, 0.04), prompts(5, 0.1), prompts(10, 0.1, lost=0.1)], ids=["rounds", "prompts", "lost"]
)
def test_intervals_cover_an_effect_and_bounds_rarely_pass_it(case):
    shifted = FactorEval(
        n=case.n, levels=case.levels, deviations=case.deviations, suits_level=case.suits_level,
        lost=case.lost, effect=-0.05,
    )  # fmt: skip
    means = compare_crossed(shifted)
    intervals = [crossed_interval(mean) for mean in means]
    bounds = [crossed_bounds(mean, alpha=0.05, bounds=(-1.0, 1.0)) for mean in means]

    assert at_least(sum(interval.low <= -0.05 <= interval.high for interval in intervals), RUNS, 0.95)
    assert at_most(sum(bound.low > -0.05 for bound in bounds), RUNS, 0.05)
    assert at_most(sum(bound.high < -0.05 for bound in bounds), RUNS, 0.05)


@pytest.mark.parametrize(("n", "lost"), [(200, 0.02), (100, 0.05)])
def test_rare_disasters_that_rounds_agree_on_rarely_pass(n, lost):
    """At the margin. By the added sample alone 200 samples erred in .08."""
    rng, beyond = np.random.default_rng([7, n]), 0
    for _ in range(RUNS):
        candidate = np.repeat(rng.random((n, 1)) >= lost, 3, axis=1).astype(float)
        mean = crossed_difference(candidate, np.ones((n, 3)), ["rounds"])
        beyond += crossed_bounds(mean, alpha=0.05, bounds=(-1.0, 1.0)).low > -lost + 1e-9

    assert at_most(beyond, RUNS, 0.05)


def test_one_run_that_is_taken_for_all_errs_often():
    """The reason for rounds: at run-to-run noise of 0, 2 and 4 points, one run of 1,000 samples errs in 5, 14 and 31 %."""
    shares = []
    for noise in (0.0, 0.02, 0.04):
        runs = rounds(1, noise).draw(400)
        shares.append(np.mean([compare(entry.ravel(), other.ravel()).significant for entry, other in runs]))

    assert shares[0] < 0.1 < shares[1] < 0.3 < shares[2]


def test_power_is_near_that_of_known_variances():
    """10 prompts that hardly differ: the effect that a test with known variances finds in 80 % is found in 70 %."""
    case = prompts(10, 0.02)
    null = [mean.estimate for mean in compare_crossed(case)]
    effect = 2.8 * float(np.std(null))
    shifted = FactorEval(
        n=case.n, levels=case.levels, deviations=case.deviations, suits_level=case.suits_level, effect=effect
    )

    count = sum(crossed_p_value(mean) <= 0.05 for mean in compare_crossed(shifted, seed=1))

    assert at_least(count, RUNS, 0.68)


@pytest.mark.parametrize(
    "case",
    [rounds(5, 0.04), rounds(3, 0.02), prompts(10, 0.1), both(0.05, 0.05)],
    ids=["5 rounds", "3 rounds", "10 prompts", "5 prompts x 3 rounds"],
)
def test_a_difference_that_a_run_says_the_next_can_detect_is_found_in_about_80_percent(case):
    """Each run prints its own number; the next run has that as its true difference."""
    count = []
    for seed, (candidate, baseline) in enumerate(case.draw(PLANNED, seed=3)):
        mean = crossed_difference(candidate, baseline, list(case.levels))
        shifted = replace(case, effect=detectable_over_sources(mean.sources))
        [next_run] = compare_crossed(shifted, 1, seed=1000 + seed)
        count.append(crossed_p_value(next_run) <= 0.05 and next_run.estimate > 0)

    assert at_least(sum(count), PLANNED, 0.76)
    assert at_most(sum(count), PLANNED, 0.88)


@pytest.mark.parametrize("counts", [(3, 3), (5, 3), (10, 10), (5, 1)], ids=str)
def test_equal_recipes_are_rarely_called_different_by_their_trainings(counts):
    """Both recipes' trainings differ by 5 points; where the baseline is one model, it is as good as the recipe on average."""
    rng = np.random.default_rng([16, *counts])
    p_values = []
    for _ in range(RUNS):
        skill = rng.normal(0.5, 0.1, (300, 1))
        arms = [skill + (rng.normal(0, 0.05, (1, count)) if count > 1 else 0.0) for count in counts]
        replies = [(rng.random((300, count)) < arm).astype(np.float64) for arm, count in zip(arms, counts, strict=True)]
        mean = crossed_difference(*replies, [], trainings=("trainings of the candidate", "trainings of v1"))
        p_values.append(crossed_p_value(mean))

    assert at_most(sum(value <= 0.05 for value in p_values), RUNS, 0.05)
    assert at_most(sum(value <= 0.005 for value in p_values), RUNS, 0.005)
