"""Differences of conditional means where the truth is known: errors of the bounds at the truth, false alarms, and power.

Bounds: each side at 5 %. Swaps: two-sided at 5 %, where the two replies to a sample are exchangeable.
"""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import ALPHA, at_least, at_most

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.ratio_bounds import RatioArm, ratio_difference_p_value
from pytest_crucible.stats.resampling.alikeness import swap_arms

pytestmark = pytest.mark.slow

RUNS = choose_runs(1200)
UNIT = (0.0, 1.0)


def draw_applying(rng, n, chances, shared):
    """Draw the samples to which the metric applies in either arm; a share of samples has one chance for both arms."""
    first = rng.random(n)
    second = np.where(rng.random(n) < shared, first, rng.random(n))
    return first < chances[0], second < chances[1]


def rare(rng, n):
    ours, theirs = draw_applying(rng, n, (0.05, 0.1), 0.5)
    return ours * (rng.random(n) < 0.9), ours, theirs * (rng.random(n) < 0.9), theirs, 0.0


def predictive_value(rng, n):
    """A strict classifier selects 9 in 10 of the right ones, and a lax one half of the others too: .9 and .63."""
    right = rng.random(n) < 0.5
    strict = rng.random(n) < np.where(right, 0.9, 0.1)
    lax = strict | (rng.random(n) < 0.5)
    truth = 0.9 - (0.5 * 0.95) / (0.5 * 0.95 + 0.5 * 0.55)
    return strict * right, strict, lax * right, lax, truth


def near_one(rng, n):
    ours, theirs = draw_applying(rng, n, (0.6, 0.3), 0.0)
    return ours * (rng.random(n) < 0.98), ours, theirs * (rng.random(n) < 0.9), theirs, 0.08


def opposite(rng, n):
    """It applies in exactly one arm."""
    ours = rng.random(n) < 0.5
    return ours * (rng.random(n) < 0.7), ours, ~ours * (rng.random(n) < 0.7), ~ours, 0.0


def by_difficulty(rng, n):
    """One arm answers the samples that it gets right, the other those that it gets wrong: 2/3 and 1/3."""
    ease = rng.random(n)
    ours, theirs = rng.random(n) < ease, rng.random(n) < 1 - ease
    return ours * (rng.random(n) < ease), ours, theirs * (rng.random(n) < ease), theirs, 1 / 3


def collapses(rng, n):
    """Two in a hundred replies collapse; the others are nearly alike."""
    ours, theirs = draw_applying(rng, n, (0.5, 0.5), 0.8)
    values = [np.where(rng.random(n) < 0.02, 0.0, 0.9 + 0.1 * rng.random(n)) for _ in range(2)]
    return ours * values[0], ours, theirs * values[1], theirs, 0.0


def everywhere(rng, n):
    every, hard = np.ones(n, dtype=bool), rng.random(n) < 0.9
    return hard.astype(float), every, np.where(rng.random(n) < 0.7, hard, rng.random(n) < 0.9), every, 0.0


def groups(rng, count):
    """Whole groups fail, sizes are Pareto's up to 40, and how often it applies is a group's own."""
    sizes = np.minimum((rng.pareto(1.2, count) + 1).astype(int), 40)
    codes = np.repeat(np.arange(count), sizes)
    bad, chance = rng.random(count) < 0.15, rng.beta(1, 1, count)
    other = np.where(rng.random(count) < 0.5, bad, rng.random(count) < 0.15)
    ours, theirs = (rng.random(codes.size) < chance[codes] for _ in range(2))

    def total(values):
        return np.bincount(codes, weights=values.astype(float), minlength=count)

    return total(ours & ~bad[codes]), total(ours), total(theirs & ~other[codes]), total(theirs), 0.0


SHAPES = [rare, predictive_value, near_one, opposite, by_difficulty, collapses, everywhere, groups]


def arms(draw) -> tuple[RatioArm, RatioArm]:
    totals, sizes, other_totals, other_sizes, _ = draw
    return RatioArm(totals.astype(float), sizes.astype(float)), RatioArm(
        other_totals.astype(float), other_sizes.astype(float)
    )


@pytest.mark.parametrize("n", [20, 60, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_bound_is_beyond_the_truth_as_seldom_as_it_says(shape, n):
    rng, errors = np.random.default_rng([n, len(shape.__name__)]), {"lower": 0, "upper": 0}
    for _ in range(RUNS):
        draw = shape(rng, n)
        for side in errors:
            try:
                p_value = ratio_difference_p_value(*arms(draw), null=draw[-1], bounds=UNIT, side=side)
            except NotEnoughData:
                continue
            errors[side] += p_value <= ALPHA

    assert all(at_most(count, RUNS, ALPHA) for count in errors.values())


@pytest.mark.parametrize("n", [12, 60, 200])
@pytest.mark.parametrize("shape", [rare, collapses, everywhere, groups])
def test_swaps_find_a_difference_between_exchangeable_arms_as_seldom_as_they_say(shape, n):
    rng, alarms = np.random.default_rng([n, 2, len(shape.__name__)]), 0
    for _ in range(RUNS):
        first, second = arms(shape(rng, n))
        swapped = rng.random(n) < 0.5
        pair = [
            RatioArm(np.where(swapped, two.totals, entry.totals), np.where(swapped, two.sizes, entry.sizes))
            for entry, two in ((first, second), (second, first))
        ]
        alarms += swap_arms(*pair).p_value <= ALPHA

    assert at_most(alarms, RUNS, ALPHA)


def test_a_predictive_value_that_falls_is_found():
    """.9 against .63 in 100 samples: swaps, bounds and the linearised t found it in all of 800 runs."""
    rng, count, proven = np.random.default_rng(5), 0, 0
    for _ in range(RUNS):
        pair = arms(predictive_value(rng, 100))
        count += swap_arms(*pair).p_value <= ALPHA
        proven += ratio_difference_p_value(*pair, null=0.0, bounds=UNIT, side="lower") <= ALPHA / 2

    assert at_least(count, RUNS, 0.99)
    assert at_least(proven, RUNS, 0.99)
