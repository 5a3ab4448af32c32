"""Three arms or more: common samples, lost and dropped arms, and what has no ranks."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible import stats
from pytest_crucible.analyse.many_arms import compare_many_arms
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.records import MetricFacts

BINARY = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
AMOUNT = MetricFacts(name="latency", kind="positive", direction="lower", low=0.0)
RNG = np.random.default_rng(8)
RIGHT = (RNG.random((200, 4)) < [0.9, 0.85, 0.6, 0.3]).astype(float)


def make_scores(values, facts: MetricFacts = BINARY, inapplicable=()) -> Scores:
    """NaN is lost, except at the samples to which the metric does not apply."""
    array = np.array(values, dtype=float)
    none = np.zeros(array.size, dtype=bool)
    none[list(inapplicable)] = True
    lost = np.isnan(array) & ~none
    return Scores(array, np.where(lost, facts.low, array), np.where(lost, facts.high, array), lost, none)


def compare(values, facts: MetricFacts = BINARY, attributes: SampleAttributes | None = None, **more):
    arms = [(f"v{k}", make_scores(column, facts)) for k, column in enumerate(np.asarray(values).T)]
    return compare_many_arms(facts, arms, attributes or SampleAttributes(), alpha=0.05, **more)


def test_ranks_and_differences_are_those_of_the_statistics():
    table = compare(RIGHT)
    ranks = stats.rank_arms(RIGHT)
    intervals = stats.pairwise_intervals(ranks.comparisons, bounds=(0, 1))

    assert [result.ranks for result in table.arms] == [(rank.best, rank.worst) for rank in ranks.ranks]
    assert [result.p_worse for result in table.arms] == list(ranks.p_worse)
    assert table.best == "v0"
    assert table.arms[2].difference == pytest.approx(RIGHT[:, 2].mean() - RIGHT[:, 0].mean())
    assert table.arms[2].difference_interval.high == intervals.high[2, 0]
    assert table.arms[0].difference_interval is None
    assert (table.n, table.incomplete, table.reason) == (200, 0, "")
    assert table.not_proven_worse == ("v0", "v1")


def test_where_lower_is_better_the_lowest_mean_is_the_best():
    table = compare(RIGHT, MetricFacts(name="wrong", kind="binary", direction="lower", low=0.0, high=1.0))

    assert table.best == "v3"
    assert [result.rank for result in table.arms] == [4, 3, 2, 1]
    assert all(result.difference <= 0 for result in table.arms)


def test_ranks_are_of_the_common_samples_and_estimates_of_all():
    values = RIGHT.copy()
    values[:5, 1] = np.nan
    table = compare(values)

    assert [result.n for result in table.arms] == [200, 195, 200, 200]
    assert (table.n, table.incomplete, table.arms[1].lost) == (195, 5, 5)
    assert table.arms[2].difference == pytest.approx(RIGHT[5:, 2].mean() - RIGHT[5:, 0].mean())


def test_lost_samples_count_as_anything():
    values = RIGHT.copy()
    values[:120, 2] = np.nan
    ranks = [result.ranks for result in compare(values).arms]

    # 120 right answers would make it the second; 120 wrong ones the last.
    assert ranks[2] == (1, 4)
    assert ranks[0][0] == 1


def test_samples_to_which_the_metric_does_not_apply_are_left_out():
    values = RIGHT.copy()
    values[:50, 0] = np.nan
    arms = [
        (f"v{k}", make_scores(column, inapplicable=range(50) if k == 0 else ())) for k, column in enumerate(values.T)
    ]
    table = compare_many_arms(BINARY, arms, SampleAttributes(), alpha=0.05)

    assert (table.n, table.incomplete) == (150, 0)


def test_an_arm_without_scores_may_have_any_rank():
    values = np.column_stack([RIGHT, np.full(200, np.nan)])
    table = compare(values)

    assert table.arms[4].ranks == (1, 5)
    assert (table.arms[4].value, table.arms[4].rank, table.arms[4].difference) == (None, None, None)
    assert table.n == 200
    assert table.arms[0].ranks == (1, 3)
    assert table.not_proven_worse == ("v0", "v1", "v4")


def test_dropped_arms_take_no_samples_from_the_others():
    values = RIGHT.copy()
    values[25:, 3] = np.nan
    worse = frozenset({"v0", "v1"})
    proven, unproven = (compare(values, dropped={"v3": better}) for better in (worse, frozenset()))

    assert proven.n == 200
    assert proven.arms[3].n == 25
    # v3 is not proven worse than v2, which may so be the last.
    assert [result.ranks for result in proven.arms] == [(1, 2), (1, 2), (3, 4), (3, 4)]
    assert [result.ranks for result in unproven.arms] == [(1, 3), (1, 3), (3, 4), (1, 4)]
    assert proven.not_proven_worse == ("v0", "v1")
    assert unproven.not_proven_worse == ("v0", "v1", "v3")


def test_the_only_arm_that_was_run_to_the_end_is_the_best_unless_another_may_be():
    better = {"v1": frozenset({"v0"}), "v2": frozenset({"v1", "v0"}), "v3": frozenset()}
    alone = compare(RIGHT, dropped=better)

    assert [result.ranks for result in alone.arms] == [(1, 2), (2, 4), (3, 4), (1, 4)]
    assert (alone.best, alone.reason) == ("v0", "")
    assert alone.not_proven_worse == ("v0", "v3")


def test_amounts_are_compared_by_ratios():
    seconds = np.exp(RNG.normal([0.0, 0.1, 1.0], 0.5, (100, 3)))
    table = compare(seconds, AMOUNT)

    assert table.by_ratio
    assert table.best == "v0"
    assert table.arms[2].difference == pytest.approx(np.log(seconds[:, 0]).mean() - np.log(seconds[:, 2]).mean())
    # A lost amount has no largest value; that v1 is better than v2 does not depend on it.
    seconds[0, 0] = np.nan
    assert [result.ranks for result in compare(seconds, AMOUNT).arms] == [(1, 3), (1, 2), (2, 3)]


def test_an_amount_of_zero_has_no_ratio_and_arms_no_ranks():
    seconds = np.exp(RNG.normal([0.0, 0.1, 1.0], 0.5, (100, 3)))
    seconds[3, 1] = 0.0
    table = compare(seconds, AMOUNT)

    assert table.by_ratio
    assert table.reason == "1 value is 0, and a ratio of geometric means needs values above 0"
    assert {result.ranks for result in table.arms} == {None}


def test_groups_are_one_unit_each():
    values, labels = np.repeat(RIGHT[:20, :3], 5, axis=0), np.arange(100) // 5
    table = compare(values, attributes=SampleAttributes(labels))

    assert table.clusters == 20
    expected = stats.rank_arms(values, clusters=labels).ranks
    assert [result.ranks for result in table.arms] == [(rank.best, rank.worst) for rank in expected]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (SampleAttributes(np.arange(200) // 50), "4 clusters"),
        (SampleAttributes(look_alpha=0.01), "any look"),
    ],
)
def test_what_has_no_ranks_has_a_reason(attributes, reason):
    table = compare(RIGHT[:, :3], attributes=attributes)

    assert reason in table.reason
    assert all(result.ranks is None and result.value is not None for result in table.arms)
