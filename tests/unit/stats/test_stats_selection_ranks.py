"""All pairs of arms by step-down max-T: ranks, intervals, arms that are not the best, and claims with lost values."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import (
    LostValues,
    bound_chosen_arm,
    clopper_pearson_bound,
    compare,
    compare_all_arms,
    compare_chosen_arm,
    mean_interval,
    p_below_best,
    paired_t,
    pairwise_intervals,
    rank_arms,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.proportions.one import clopper_pearson_interval
from pytest_crucible.stats.selection.max_t import SPENT_SHARE
from pytest_crucible.stats.selection.ranks import compare_with_lost
from pytest_crucible.stats.studentized_range import studentized_range_tail


def draw_scores(shifts, n: int = 80, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, len(shifts))) + np.asarray(shifts)


def test_two_arms_have_the_paired_t_test():
    """Both directions are in the family, so that two one-sided tests are one two-sided test."""
    scores = draw_scores([0.0, 0.35])
    result, alone = compare_all_arms(scores, draws=200_000), paired_t(scores[:, 1], scores[:, 0])

    assert result.statistics[1, 0] == pytest.approx(alone.statistic)
    assert result.p_adjusted[1, 0] == pytest.approx(alone.p_value / SPENT_SHARE, rel=0.05)
    assert result.p_adjusted[0, 1] > 0.5


def test_the_largest_statistic_of_independent_arms_is_tukeys():
    """R: ptukey(sqrt(2) * t, 6, Inf, lower.tail=FALSE), where one variance and no correlation is true."""
    rng = np.random.default_rng(1)
    result = compare_all_arms(rng.normal(size=(4000, 6)), draws=100_000)
    largest = result.statistics.max()

    tail = studentized_range_tail(2**0.5 * largest, 6, np.inf)
    assert result.p_adjusted.min() == pytest.approx(tail / SPENT_SHARE, abs=0.01)


def test_adjusted_p_values_are_those_of_the_definition():
    """The long way: for each claim in descending order, the largest null among those not yet proven."""
    scores = draw_scores([0.0, 0.2, 0.5, 0.6], n=200)
    result = compare_all_arms(scores, draws=50_000, rng=0)
    rng = np.random.default_rng(9)
    means = rng.multivariate_normal(np.zeros(4), np.cov(scores.T), 50_000)
    claims = [(i, j) for i in range(4) for j in range(4) if i != j]
    claims.sort(key=lambda claim: -result.statistics[claim])
    nulls = np.stack([(means[:, i] - means[:, j]) / np.std(scores[:, i] - scores[:, j], ddof=1) for i, j in claims])
    expected, least = {}, 0.0
    for place, claim in enumerate(claims):
        least = max(least, float(np.mean(nulls[place:].max(axis=0) >= result.statistics[claim])))
        expected[claim] = least

    for claim in claims:
        if result.statistics[claim] > 0:
            assert result.p_adjusted[claim] == pytest.approx(min(expected[claim] / SPENT_SHARE, 1.0), abs=0.02)


def test_only_one_direction_can_be_proven():
    p_values = compare_all_arms(draw_scores([0.0, 0.5, 1.0])).p_adjusted

    assert np.maximum(p_values, p_values.T).min() == 1.0
    assert p_values[2, 0] == pytest.approx(1 / 10_001 / SPENT_SHARE)


def test_equal_arms_and_constant_differences():
    scores = draw_scores([0.0])
    arms = np.column_stack([scores, scores, scores + 1.0])
    result = compare_all_arms(arms)

    assert result.statistics[1, 0] == 0.0
    assert result.p_adjusted[1, 0] == result.p_adjusted[0, 1] == 1.0
    assert result.p_adjusted[2, 0] == pytest.approx(1 / 10_001 / SPENT_SHARE)


def test_a_constant_difference_on_few_samples_is_not_proven():
    """Six claims of 1 / 2^6 each."""
    arms = np.column_stack([np.zeros(6), np.ones(6), np.arange(6.0)])

    assert compare_all_arms(arms).p_adjusted[1, 0] == pytest.approx(6 / 2**6)


def test_the_order_of_arms_and_samples_does_not_matter():
    scores = draw_scores([0.0, 0.3, 0.6])
    result, turned = rank_arms(scores), rank_arms(scores[::-1, ::-1])

    assert [(rank.best, rank.worst) for rank in result.ranks] == [
        (rank.best, rank.worst) for rank in reversed(turned.ranks)
    ]
    assert result.p_worse == rank_arms(scores).p_worse


def test_ranks_are_counts_of_proven_claims():
    result = rank_arms(draw_scores([0.0, 0.1, 2.0, 1.0]))

    assert [(rank.item, rank.rank, rank.best, rank.worst) for rank in result.ranks][2:] == [(2, 1, 1, 1), (3, 2, 2, 2)]
    assert [(rank.best, rank.worst) for rank in result.ranks][:2] == [(3, 4), (3, 4)]
    assert result.not_proven_worse == (2,)
    assert result.p_worse[2] > 0.5
    assert max(result.p_worse[0], result.p_worse[1], result.p_worse[3]) < 0.001


def test_intervals_grow_with_the_level_and_contain_the_rank():
    scores = draw_scores([0.0, 0.2, 0.4, 0.6, 0.8])
    narrow, wide = rank_arms(scores, level=0.8).ranks, rank_arms(scores, level=0.999).ranks

    assert all(single.best <= single.rank <= single.worst for single in narrow)
    assert all(
        other.best <= single.best and single.worst <= other.worst for single, other in zip(narrow, wide, strict=True)
    )
    assert sum(single.worst - single.best for single in narrow) < sum(single.worst - single.best for single in wide)


def test_equal_means_share_the_smaller_rank():
    bits = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=float)

    assert [rank.rank for rank in rank_arms(bits).ranks] == [1, 1, 3]


def test_clusters_prove_less():
    scores = np.repeat(draw_scores([0.0, 0.4], n=20), 5, axis=0)
    labels = np.arange(100) // 5

    assert rank_arms(scores).p_worse[0] < 0.05 < rank_arms(scores, clusters=labels).p_worse[0]
    with pytest.raises(NotEnoughData, match="4 clusters"):
        rank_arms(scores, clusters=np.arange(100) // 25)


def test_few_units_are_compared_by_t():
    """A statistic of 3 is not proven by 5 samples, however many are drawn."""
    differences = np.array([0.2, 0.5, 0.9, 0.4, 0.1])
    arms = np.column_stack([np.zeros(5), differences])

    assert compare_all_arms(arms, draws=100_000).p_adjusted[1, 0] == pytest.approx(
        paired_t(arms[:, 1], arms[:, 0]).p_value / SPENT_SHARE, rel=0.1
    )


def test_the_line_shows_all_ranks():
    line = str(rank_arms(draw_scores([0.0, 2.0])))

    assert line == "0: rank 2 [2, 2]; 1: rank 1 [1, 1], n=80 (step-down max-t, 10,000 draws)"


# -- tests of the arms that are not the best, with an error rate for the best alone -------------------------------


BELOW_RNG = np.random.default_rng(0)


def test_two_arms_have_the_p_value_of_their_pair():
    values = BELOW_RNG.normal([0.0, 0.3], 1.0, (40, 2))
    pair = compare_all_arms(values)

    # One of two arms is the claim of its pair alone, not of both directions.
    assert p_below_best(values)[0] == pytest.approx(pair.p_adjusted[1, 0] / 2, rel=0.1)
    assert p_below_best(values)[1] == 1.0


def test_it_claims_less_than_all_pairs_together():
    values = BELOW_RNG.normal([0.0, 0.3, 0.3, 0.5, 0.6], 1.0, (60, 5))
    pairs = compare_all_arms(values).p_adjusted.min(axis=0)

    assert all(below <= pair for below, pair in zip(p_below_best(values), pairs, strict=True))


def test_constant_differences_are_decided_by_sign_flips():
    few = np.column_stack([np.zeros(3), np.ones(3)])
    many = np.column_stack([np.zeros(12), np.ones(12)])

    assert p_below_best(few)[0] == 0.5**3
    assert p_below_best(many)[0] < 0.001
    assert p_below_best(many)[1] == 1.0


def test_groups_are_the_units():
    values = np.repeat(BELOW_RNG.normal([0.5, 0.7], 0.2, (6, 2)), 10, axis=0)
    groups = np.repeat(np.arange(6), 10)

    assert p_below_best(values)[0] < 0.001 < p_below_best(values, clusters=groups)[0]
    with pytest.raises(NotEnoughData):
        p_below_best(values[:40], clusters=groups[:40])


def test_the_best_of_several_arms_is_seldom_taken_for_another():
    wrong = [p_below_best(BELOW_RNG.normal(0.0, 1.0, (30, 6)), draws=500)[0] <= 0.05 for _ in range(400)]

    # Six equal arms: 5 %, and three standard errors.
    assert np.mean(wrong) <= 0.05 + 3 * 0.011


# -- claims about an arm that the same samples chose --------------------------------------------------------------


RNG = np.random.default_rng(4)
RIGHT, WRONG = (RNG.random((2, 80)) < [[0.8], [0.6]]).astype(float)


def test_a_bound_of_one_of_eight_arms_is_exact_at_an_eighth_of_alpha():
    bound = bound_chosen_arm(RIGHT, arms=8, alpha=0.04)

    assert bound.value == clopper_pearson_bound(int(RIGHT.sum()), 80, alpha=0.005, side="lower")
    assert bound_chosen_arm(RIGHT, arms=8, side="upper").value > RIGHT.mean()


def test_a_comparison_has_the_p_value_of_one_times_the_arms_and_agrees_with_its_interval():
    alone, chosen = compare(RIGHT, WRONG), compare_chosen_arm(RIGHT, WRONG, arms=8)

    assert chosen.p_value == pytest.approx(8 * alone.p_value)
    assert chosen.p_exact == pytest.approx(8 * alone.p_exact)
    assert chosen.interval.level == pytest.approx(1 - 0.05 / 8)
    for arms in (1, 2, 8, 32, 1000):
        result = compare_chosen_arm(RIGHT, WRONG, arms=arms)
        assert (result.p_value < 0.05) == (result.interval.low > 0)


def test_one_arm_was_not_chosen():
    assert compare_chosen_arm(RIGHT, WRONG, arms=1).p_value == compare(RIGHT, WRONG).p_value
    with pytest.raises(ValueError, match="chosen among 0"):
        bound_chosen_arm(RIGHT, arms=0)


# -- simultaneous intervals of all pairs of arms, and claims that hold whatever lost values are -------------------


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
