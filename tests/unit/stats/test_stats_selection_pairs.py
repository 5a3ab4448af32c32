"""Simultaneous intervals of all pairs of arms, and claims that hold whatever lost values are."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import LostValues, compare_all_arms, mean_interval, pairwise_intervals, rank_arms
from pytest_crucible.stats.proportions.one import clopper_pearson_interval
from pytest_crucible.stats.selection.max_t import SPENT_SHARE
from pytest_crucible.stats.selection.ranks import compare_with_lost


def draw_scores(shifts, n: int = 80, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, len(shifts))) + np.asarray(shifts)


def test_two_arms_have_the_paired_t_interval():
    scores = draw_scores([0.0, 0.35])
    intervals = pairwise_intervals(compare_all_arms(scores, draws=200_000))
    alone = mean_interval(scores[:, 1] - scores[:, 0], level=1 - 0.05 * SPENT_SHARE)

    assert (intervals.low[1, 0], intervals.high[1, 0]) == pytest.approx((alone.low, alone.high), abs=0.005)
    assert intervals.low[0, 1] == -intervals.high[1, 0]


def test_an_interval_excludes_zero_where_the_difference_is_proven():
    for seed in range(20):
        result = compare_all_arms(draw_scores([0.0, 0.2, 0.3, 0.5, 0.6], seed=seed), draws=2_000, rng=seed)
        intervals = pairwise_intervals(result)

        # What step-down alone proves has an interval that ends at 0.
        assert np.array_equal(intervals.low >= 0, (result.p_adjusted <= 0.05) | np.eye(5, dtype=bool))
        assert (intervals.low <= result.differences).all()


def test_more_arms_have_longer_intervals():
    few, many = draw_scores([0.0] * 2), draw_scores([0.0] * 8)
    lengths = [
        np.diff(pairwise_intervals(compare_all_arms(single)).high[0, :2] / single.std()) for single in (few, many)
    ]

    assert lengths[1] > lengths[0]


def test_arms_with_the_same_values_have_a_point_mass_interval():
    """All 50 differences are 0: a difference in more than 1 - 0.05^(1/50) of samples is excluded, at 95 % for the one pair."""
    bits = (np.arange(50) % 3 == 0).astype(float)
    intervals = pairwise_intervals(compare_all_arms(np.column_stack([bits, bits])), bounds=(0.0, 1.0))

    assert intervals.high[0, 1] == pytest.approx(1 - 0.05 ** (1 / 50))
    assert intervals.low[0, 1] == -intervals.high[0, 1]
    # One-sided by itself, with which a share of 0 of 50 agrees.
    assert clopper_pearson_interval(0, 50, level=0.9).high == pytest.approx(intervals.high[0, 1])


def test_without_bounds_nothing_is_known_of_equal_arms():
    bits = (np.arange(50) % 3 == 0).astype(float)
    intervals = pairwise_intervals(compare_all_arms(np.column_stack([bits, bits])))

    assert (intervals.low[0, 1], intervals.high[0, 1]) == (-np.inf, np.inf)


def test_without_a_loss_claims_are_those_of_the_values():
    scores = draw_scores([0.0, 0.3, 0.6])
    plain = compare_all_arms(scores, draws=50_000).p_adjusted
    none_lost = compare_with_lost(LostValues(lowest=scores, highest=scores), draws=50_000)

    # Claims in the direction of the difference; the others are never proven.
    assert none_lost[plain < 1] == pytest.approx(plain[plain < 1], abs=0.01)
    assert (none_lost[plain == 1] == 1).all()


def test_what_lost_values_could_reverse_is_not_proven():
    rng = np.random.default_rng(3)
    values = (rng.random((200, 3)) < [0.9, 0.55, 0.55]).astype(float)
    complete = rank_arms(values)
    lowest, highest = values.copy(), values.copy()
    lowest[:80, 0], highest[:80, 0] = 0.0, 1.0
    lost = LostValues(lowest=lowest, highest=highest)
    result = rank_arms(values[80:], lost=lost)

    assert complete.not_proven_worse == (0,)
    assert rank_arms(values[80:]).not_proven_worse == (0,)
    assert result.not_proven_worse == (0, 1, 2)
    assert (result.ranks[0].best, result.ranks[0].worst) == (1, 3)


def test_an_arm_without_bounds_is_never_proven():
    scores = draw_scores([3.0, 0.0, -3.0])
    lowest, highest = scores.copy(), scores.copy()
    lowest[0, 0], highest[0, 0] = -np.inf, np.inf
    p_values = compare_with_lost(LostValues(lowest=lowest, highest=highest))

    assert (p_values[0] == 1).all()
    assert (p_values[:, 0] == 1).all()
    assert p_values[1, 2] < 0.01


def test_clusters_are_respected_with_losses():
    scores = np.repeat(draw_scores([0.0, 0.5], n=20), 5, axis=0)
    labels = np.arange(100) // 5
    alone, together = (
        compare_with_lost(LostValues(lowest=scores, highest=scores, clusters=clusters)) for clusters in (None, labels)
    )

    assert alone[1, 0] < 0.05 < together[1, 0]
