"""Ends of runs with looks, and comparisons of many arms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm, score_column
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.analyse.many_arms import compare_many_arms
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.analyse.stopping import in_order, settled_after, stop_early
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

N = 120
ALPHA = 0.05
ORDER = list(range(N - 1, -1, -1))


def inputs(rates=(0.95, 0.5), *, seed=0, targets=("a >= 0.7",), contrasts=({},), groups=None, lost=()):
    rng = np.random.default_rng(seed)
    arms = [(rng.random(N) < rate).tolist() for rate in rates]
    for position in lost:
        arms[0][position] = "lost"
    compared = [replace(parse_contrast("a", **claim), baseline="v1") for claim in contrasts]
    of_arms = (arm(a=values) for values in arms)
    return analysis_inputs(*of_arms, n=N, targets=targets, contrasts=compared, groups=groups, look_alpha=ALPHA)


def verdicts(run_inputs, order):
    """The verdicts on the first samples of an order, were the run to end there."""
    table = in_order(score_table(run_inputs), order, ALPHA)
    analysis = analyse(run_inputs, table, alpha=ALPHA, family_size=1)
    return decide_verdicts(adjust_p_values([analysis], family_size=1), alpha=ALPHA, strict=True, family_size=1)


CLAIMS = st.sampled_from(
    [
        {},
        {"alternative": "superior"},
        {"margin": 0.2},
        {"alternative": "superior", "margin": 0.1},
        {"alternative": "equivalent", "margin": 0.4},
    ]
)


@pytest.mark.slow
@given(st.integers(0, 999), CLAIMS, st.sampled_from([(0.95, 0.4), (0.4, 0.95), (0.9, 0.9)]), st.booleans())
@settings(max_examples=30)
def test_verdicts_are_settled_at_the_end_and_not_before(seed, claim, rates, loses):
    run_inputs = inputs(rates, seed=seed, contrasts=(claim,), lost=(3, 50, 117) if loses else ())
    end = settled_after(run_inputs, ORDER, ALPHA)

    assert all(verdict.proven for verdict in verdicts(run_inputs, ORDER[: end or N])) == (end is not None)
    if end is not None:
        assert not all(verdict.proven for verdict in verdicts(run_inputs, ORDER[: end - 1]))


@given(st.integers(0, 999), st.sampled_from([(0.95, 0.4), (0.4, 0.95)]))
@settings(max_examples=20)
def test_a_relevant_difference_is_settled_when_it_is_excluded_or_exceeded(seed, rates):
    """Not as soon as a regression is proven: the bounds may still exclude that it matters."""
    run_inputs = inputs(rates, seed=seed, targets=(), contrasts=({"relevant": 0.2},))
    end = settled_after(run_inputs, ORDER, ALPHA)
    table = in_order(score_table(run_inputs), ORDER[:end], ALPHA)
    (comparison,) = analyse(run_inputs, table, alpha=ALPHA, family_size=1).comparisons
    (verdict,) = verdicts(run_inputs, ORDER[:end])
    bounds = comparison.evidence.observed

    assert end is not None
    assert (verdict.state, verdict.proven) == ("missed" if rates[0] < rates[1] else "met", True)
    assert bounds.upper < -0.2 if verdict.state == "missed" else bounds.lower > -0.2
    if verdict.state == "missed":
        assert settled_after(inputs(rates, seed=seed, targets=()), ORDER, ALPHA) < end


def test_an_end_does_not_cut_a_group():
    groups = [f"g{k // 3}" for k in range(N)]
    plain, grouped = settled_after(inputs(), ORDER, ALPHA), settled_after(inputs(groups=groups), ORDER, ALPHA)

    assert grouped % 3 == 0
    assert grouped > plain


def test_unequal_groups_count_their_samples():
    """Large groups are right by half, single samples always: .56 of samples, and .89 of the groups' means."""
    groups = [f"large{k // 13}" if k < 104 else f"single{k}" for k in range(N)]
    values = [k % 2 == 0 if k < 104 else True for k in range(N)]
    run_inputs = analysis_inputs(arm(a=values), arm(a=values), targets=["a >= 0.7"], groups=groups, look_alpha=ALPHA)
    by_hand = np.mean(values)
    (target,) = analyse(run_inputs, in_order(score_table(run_inputs), ORDER, ALPHA), alpha=ALPHA, family_size=1).targets

    assert target.estimate.value == pytest.approx(by_hand)
    assert target.evidence.observed.lower < by_hand < 0.7


def test_the_largest_group_of_the_plan_weighs_before_it_is_seen():
    """Single samples prove nothing as fast while a group of 100 may still come."""
    with_large = [f"g{max(k - 99, 0)}" for k in range(N)]
    ends = [settled_after(inputs(groups=groups, contrasts=()), ORDER[:20], ALPHA) for groups in (None, with_large)]

    assert ends[0] is not None
    assert ends[1] is None


def test_replies_after_the_end_change_nothing():
    run_inputs = inputs()
    end = settled_after(run_inputs, ORDER, ALPHA)
    later = settled_after(run_inputs, ORDER[: end + 10], ALPHA)
    stopped = stop_early(run_inputs, ORDER, ALPHA)

    assert end == later == len(stopped.looked_at)
    assert settled_after(run_inputs, ORDER[: end - 1], ALPHA) is None
    assert stopped.finished
    assert not any(scores.lost.any() for scores in score_table(stopped).scores["a"])


def test_lost_samples_at_the_beginning_delay_the_end():
    assert settled_after(inputs(lost=ORDER[1:5:2]), ORDER, ALPHA) > settled_after(inputs(), ORDER, ALPHA)


def test_without_a_claim_there_is_nothing_to_settle():
    assert settled_after(inputs(targets=(), contrasts=()), ORDER, ALPHA) is None


def test_numbers_without_bounds_are_refused():
    contrast = replace(parse_contrast("a"), baseline="v1")
    run_inputs = analysis_inputs(arm(a=[0.5] * N), arm(a=[0.6] * N), contrasts=[contrast])

    with pytest.raises(
        SpecError, match=r"--crucible-stop needs bounded metrics and 'a' has no bounds: declare @metric"
    ):
        settled_after(run_inputs, ORDER, ALPHA)


BINARY = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
AMOUNT = MetricFacts(name="latency", kind="positive", direction="lower", low=0.0)
RNG = np.random.default_rng(8)
RIGHT = (RNG.random((200, 4)) < [0.9, 0.85, 0.6, 0.3]).astype(float)


def compare(values, facts: MetricFacts = BINARY, attributes: SampleAttributes | None = None, **more):
    arms = [(f"v{k}", score_column(column, facts)) for k, column in enumerate(np.asarray(values).T)]
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


def test_lost_samples_may_have_any_value():
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
        (f"v{k}", score_column(column, BINARY, inapplicable=range(50) if k == 0 else ()))
        for k, column in enumerate(values.T)
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
def test_arms_without_ranks_have_a_reason(attributes, reason):
    table = compare(RIGHT[:, :3], attributes=attributes)

    assert reason in table.reason
    assert all(result.ranks is None and result.value is not None for result in table.arms)
