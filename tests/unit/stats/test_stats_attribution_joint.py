"""Joint intervals of Shapley values against their definition, written out set by set and order by order."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import t

from pytest_crucible.stats.attribution.sets import SetPlan, plan_sets, prefix_sets
from pytest_crucible.stats.attribution.values import attribute, attribute_difference

RANDOM = np.random.default_rng(8)


def coefficients(orders, segments: int, sets: int) -> np.ndarray:
    """Return segments x sets: the factor of each set's score in the mean change over some orders."""
    factors = np.zeros((segments, sets))
    for order in orders:
        steps = list(prefix_sets(order))
        for segment, before, after in zip(order, steps, steps[1:], strict=False):
            factors[segment, after] += 1 / len(orders)
            factors[segment, before] -= 1 / len(orders)
    return factors


def variances_of_sets(table: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the variance of each set's mean and its degrees of freedom: the set's own, and smoothed by those of all sets."""
    draws = table.shape[1]
    squares = ((table - table.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    everywhere = (squares.sum() + np.ptp(table) ** 2) / (len(table) * (draws - 1) + 1)
    freedom = np.full(len(table), draws - 1.0)
    return [(squares / freedom / draws, freedom), ((squares + 2 * everywhere) / (freedom + 2) / draws, freedom + 2)]


def quantile(parts: np.ndarray, freedom: np.ndarray, segments: int) -> float:
    """Return Student's quantile with Satterthwaite's degrees of freedom, so that all segments together have 95 %."""
    dof = parts.sum() ** 2 / (parts**2 / freedom).sum()
    return float(t.ppf(1 - (1 - 0.95 ** (1 / segments)) / 2, dof))


def by_number(plan: SetPlan, table: np.ndarray) -> np.ndarray:
    return table[[plan.masks.index(mask) for mask in range(len(plan.masks))]]


def scored_plan(draws: int) -> tuple[SetPlan, np.ndarray]:
    plan = plan_sets(3, 8 * draws, is_random=True, seed=0)
    return plan, RANDOM.normal(size=(8, draws)) * RANDOM.uniform(0.1, 2, size=(8, 1))


@pytest.mark.parametrize("draws", [2, 5])
def test_all_sets_with_random_replies_have_the_wider_of_two_intervals(draws):
    plan, table = scored_plan(draws)
    factors = coefficients(list(permutations(range(3))), 3, 8)

    result = attribute(plan, table)

    widths = [
        [
            quantile(own**2 * variance, freedom, 3) * math.sqrt((own**2 * variance).sum())
            for variance, freedom in variances_of_sets(by_number(plan, table))
        ]
        for own in factors
    ]
    assert result.high - result.shapley == pytest.approx(np.max(widths, axis=1), rel=1e-9)
    assert result.shapley - result.low == pytest.approx(np.max(widths, axis=1), rel=1e-9)


def test_the_variances_of_two_arms_add_up():
    plan, table = scored_plan(4)
    other = RANDOM.normal(size=(8, 4))
    factors = coefficients(list(permutations(range(3))), 3, 8)

    result = attribute_difference(plan, table, other)

    arms = zip(*(variances_of_sets(by_number(plan, each)) for each in (table, other)), strict=True)
    sums = []
    for (ours, our_freedom), (theirs, their_freedom) in arms:
        both = ours + theirs
        sums.append((both, both**2 / (ours**2 / our_freedom + theirs**2 / their_freedom)))
    widths = [
        [quantile(own**2 * both, freedom, 3) * math.sqrt((own**2 * both).sum()) for both, freedom in sums]
        for own in factors
    ]
    assert result.high - result.shapley == pytest.approx(np.max(widths, axis=1), rel=1e-9)


def permuted_plan(segments: int, calls: int, *, is_random: bool) -> SetPlan:
    plan = plan_sets(segments, calls, is_random=is_random, seed=1)
    assert len(plan.permutations) >= 8
    return plan


def pair_factors(plan: SetPlan) -> np.ndarray:
    """Return pairs x segments x sets."""
    pairs = zip(plan.permutations[::2], plan.permutations[1::2], strict=True)
    return np.array([coefficients(list(pair), plan.segments, 1 << plan.segments) for pair in pairs])


def test_permutations_of_one_model_vary_between_antithetic_pairs():
    plan = permuted_plan(6, 50, is_random=False)
    scores = RANDOM.normal(size=64)

    result = attribute(plan, scores[list(plan.masks)][:, None])

    values = pair_factors(plan) @ scores
    between = values.var(axis=0, ddof=1) / len(values)
    variances = (between + between.max()) / 2
    tail = (1 - 0.95 ** (1 / 6)) / 2
    width = t.ppf(1 - tail, 1.5 * (len(values) - 1)) * np.sqrt(variances)
    assert result.shapley == pytest.approx(values.mean(axis=0), rel=1e-9)
    assert result.high - result.shapley == pytest.approx(width, rel=1e-9)


def test_random_replies_of_sets_that_pairs_share_add_their_covariance():
    plan = permuted_plan(6, 120, is_random=True)
    table = RANDOM.normal(size=(len(plan.masks), plan.repeats))

    result = attribute(plan, table)

    factors = pair_factors(plan)[:, :, list(plan.masks)]
    pairs = len(factors)
    values = factors @ table.mean(axis=1)
    between = values.var(axis=0, ddof=1) / pairs
    # The mean product of the factors that a set has in two different pairs.
    shared = (factors.sum(axis=0) ** 2 - (factors**2).sum(axis=0)) / (pairs * (pairs - 1))
    for segment in range(6):
        widths = []
        for variance, freedom in variances_of_sets(table):
            parts = np.append(shared[segment] * variance, (between[segment] + between.max()) / 2)
            widths.append(quantile(parts, np.append(freedom, 1.5 * (pairs - 1)), 6) * math.sqrt(parts.sum()))
        assert result.high[segment] - result.shapley[segment] == pytest.approx(max(widths), rel=1e-9)


def test_equal_pairs_contain_the_value_but_for_rounding():
    plan = permuted_plan(6, 50, is_random=False)
    effects = np.arange(1, 7) / 10
    scores = np.array([[sum(effects[segment] for segment in range(6) if mask >> segment & 1)] for mask in plan.masks])

    result = attribute(plan, scores)

    assert (result.low <= effects).all()
    assert (effects <= result.high).all()
    assert (result.high - result.low < 1e-12).all()


def test_missing_requests_of_both_arms_are_counted():
    plan, table = scored_plan(4)
    candidate, baseline = table.copy(), table.copy()
    candidate[2, 0] = baseline[2, 1] = baseline[3, 0] = np.nan

    result = attribute_difference(plan, candidate, baseline)

    assert (result.requested, result.missing) == (64, 3)
