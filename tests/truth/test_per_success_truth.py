"""Amounts per success: the interval has the true ratio, in groups too, and equal arms are seldom found to differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import ALPHA, at_least, at_most

from pytest_crucible.features.agents import per_success
from pytest_crucible.measures.row import Prepared
from pytest_crucible.stats.means.fieller import fieller_interval

pytestmark = pytest.mark.slow

RUNS = choose_runs(1600)
COVERAGE = 0.94
SHAPES = {
    # samples, groups of, share of successes, likeness in groups, spread of the logarithm of amounts
    "half succeed": (100, 1, 0.5, 0.0, 0.5),
    "few succeed": (100, 1, 0.2, 0.0, 0.5),
    "nearly all succeed": (100, 1, 0.9, 0.0, 0.3),
    "groups of five": (100, 5, 0.5, 0.2, 0.5),
    "alike in groups": (200, 5, 0.3, 0.4, 0.5),
    "groups of three": (90, 3, 0.8, 0.3, 0.7),
}
WASTE = 1.5
"""How much more a failure costs, as a share of a success."""


def draw(rng, samples, size, share, likeness, spread):
    """Return amounts and successes, of groups that differ in both, with a number for each group."""
    groups = samples // size
    if likeness:
        odds = (1 - likeness) / likeness
        chances = rng.beta(share * odds, (1 - share) * odds, groups)
    else:
        chances = np.full(groups, share)
    solved = (rng.random((groups, size)) < chances[:, None]).astype(float)
    amounts = (
        rng.lognormal(0.0, spread, (groups, size)) * rng.lognormal(0.0, 0.3, (groups, 1)) * (1 + WASTE * (1 - solved))
    )
    return amounts.ravel(), solved.ravel(), np.repeat(np.arange(groups), size) if size > 1 else None


def true_ratio(samples, size, share, likeness, spread):
    return math.exp(spread**2 / 2 + 0.3**2 / 2) * (1 + WASTE * (1 - share)) / share


@pytest.mark.parametrize("name", SHAPES)
def test_the_interval_has_the_true_amount(name):
    rng, shape = np.random.default_rng(list(SHAPES).index(name)), SHAPES[name]
    truth, hits = true_ratio(*shape), 0
    for _ in range(RUNS):
        amounts, solved, groups = draw(rng, *shape)
        interval = fieller_interval(amounts, solved, clusters=groups)
        hits += interval.low <= truth <= interval.high
    print(f"{name}: coverage {hits / RUNS:.3f}")
    assert at_least(hits, RUNS, COVERAGE)


@pytest.mark.parametrize("name", SHAPES)
def test_equal_arms_seldom_differ(name):
    rng, shape, errors = np.random.default_rng(100 + list(SHAPES).index(name)), SHAPES[name], 0
    runs = RUNS // 4
    for _ in range(runs):
        arms = [draw(rng, *shape) for _ in range(2)]
        first, second = (Prepared(values=amounts, strata=solved, clusters=groups) for amounts, solved, groups in arms)
        errors += per_success.compare(first, second, ALPHA).p_value <= ALPHA
    print(f"{name}: alike arms differ in {errors / runs:.3f}")
    assert at_most(errors, runs, ALPHA)
