"""All pairs of arms by step-down max-T, and the ranks that follow: by hand, against Tukey, and laws."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import compare_all_arms, paired_t, rank_arms
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.selection.max_t import SPENT_SHARE
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
