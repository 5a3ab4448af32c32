"""Shapley values of known functions: laws, exact values, lost scores and bad input."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.attribution.interactions import plan_interactions
from pytest_crucible.stats.attribution.sets import SetPlan, extend_plan, plan_sets
from pytest_crucible.stats.attribution.values import attribute, attribute_difference


def score_sets(plan: SetPlan, function) -> np.ndarray:
    """Return sets x draws scores of a function of the list of segments that stay."""
    rows = [function([mask >> segment & 1 for segment in range(plan.segments)]) for mask in plan.masks]
    return np.repeat(np.array(rows, dtype=float)[:, None], plan.repeats, axis=1)


def attribute_function(function, segments: int, calls: int, *, is_random: bool = False, seed: int = 0):
    plan = plan_sets(segments, calls, is_random=is_random, seed=seed)
    return attribute(plan, score_sets(plan, function))


def claims(stays):
    """Score .1, .5 more with both of the first two, .2 more with the third."""
    return 0.1 + 0.5 * (stays[0] and stays[1]) + 0.2 * stays[2]


def test_a_necessary_pair_shares_its_effect():
    result = attribute_function(claims, 4, 16)

    assert result.shapley == pytest.approx([0.25, 0.25, 0.2, 0.0], abs=1e-12)
    assert result.shapley[3] == 0.0
    assert result.left_out == pytest.approx([0.5, 0.5, 0.2, 0.0], abs=1e-12)
    assert (result.low == result.shapley).all()
    assert (result.high == result.shapley).all()
    assert (result.is_exact, result.requested, result.missing) == (True, 16, 0)
    assert (result.whole, result.empty) == pytest.approx((0.8, 0.1))


def test_a_redundant_pair_shares_its_effect_and_neither_counts_when_left_out_alone():
    result = attribute_function(lambda stays: stays[0] or stays[1], 2, 4)

    assert result.shapley.tolist() == [0.5, 0.5]
    assert result.left_out.tolist() == [0.0, 0.0]
    assert result.interactions == ((0, 1, -1.0),)


def test_interactions_of_all_pairs_are_exact():
    result = attribute_function(claims, 4, 16)

    assert [(i, j) for i, j, _ in result.interactions] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert [value for _, _, value in result.interactions] == pytest.approx([0.5, 0, 0, 0, 0, 0], abs=1e-12)


def test_the_interaction_of_three_necessary_segments_is_half_of_their_effect():
    """By definition: the mean over orders of {i, j} as one and k: only where k comes first is the excess 1."""
    result = attribute_function(lambda stays: math.prod(stays[:3]), 5, 32)

    assert {value for i, j, value in result.interactions if j < 3} == {0.5}
    assert {value for i, j, value in result.interactions if j >= 3} == {0.0}


def test_one_segment_has_the_whole_effect():
    result = attribute_function(lambda stays: 0.25 + 0.5 * stays[0], 1, 2)

    assert result.shapley.tolist() == result.left_out.tolist() == [0.5]
    assert result.interactions == ()


@pytest.mark.parametrize("seed", range(3))
def test_permutations_are_exact_for_effects_of_pairs(seed):
    result = attribute_function(claims, 12, 200, seed=seed)

    assert result.shapley == pytest.approx([0.25, 0.25, 0.2] + [0.0] * 9, abs=1e-12)
    assert result.high - result.low == pytest.approx(np.zeros(12), abs=1e-10)
    assert (result.low <= result.shapley).all()
    assert not result.is_exact


def test_the_three_largest_segments_of_permutations_have_interactions_once_their_sets_are_scored():
    plan = plan_sets(12, 200, is_random=False, seed=1)
    values = attribute(plan, score_sets(plan, claims)).shapley
    longer = extend_plan(plan, plan_interactions(plan, values, 200))
    result = attribute(longer, score_sets(longer, claims))

    assert len(longer.masks) <= 200
    assert [(i, j) for i, j, _ in result.interactions] == [(0, 1), (0, 2), (1, 2)]
    assert [value for _, _, value in result.interactions] == pytest.approx([0.5, 0, 0], abs=1e-12)
    assert result.shapley.tolist() == values.tolist()


def test_sets_of_interactions_stay_within_the_calls():
    plan = plan_sets(12, 54, is_random=False, seed=0)

    assert plan_interactions(plan, np.arange(12.0), 54) == ()
    assert len(plan_interactions(plan, np.arange(12.0), 56)) == 2


scores = st.floats(-1e3, 1e3)
tables = st.integers(1, 5).flatmap(lambda n: st.lists(scores, min_size=2**n, max_size=2**n))


def exact_plan(table) -> SetPlan:
    return plan_sets(len(table).bit_length() - 1, len(table), is_random=False, seed=0)


def values_of(table) -> np.ndarray:
    plan = exact_plan(table)
    return attribute(plan, np.array(table, dtype=float)[list(plan.masks)][:, None]).shapley


@given(tables)
def test_values_are_the_mean_over_all_orders(table):
    segments = len(table).bit_length() - 1
    sums = np.zeros(segments)
    for order in permutations(range(segments)):
        mask = 0
        for segment in order:
            sums[segment] += table[mask | 1 << segment] - table[mask]
            mask |= 1 << segment

    assert values_of(table) == pytest.approx(sums / math.factorial(segments), abs=1e-9)


@given(tables, st.floats(-3, 3))
def test_values_are_additive(table, factor):
    other = [math.sin(3.0 * place) for place in range(len(table))]
    both = [value + factor * more for value, more in zip(table, other, strict=True)]

    assert values_of(both) == pytest.approx(values_of(table) + factor * values_of(other), abs=1e-9)


@given(tables, st.randoms(use_true_random=False))
def test_names_of_segments_do_not_matter(table, random):
    segments = len(table).bit_length() - 1
    names = random.sample(range(segments), segments)
    renamed = [table[sum((mask >> names[bit] & 1) << bit for bit in range(segments))] for mask in range(len(table))]

    assert values_of(renamed)[names] == pytest.approx(values_of(table), abs=1e-9)


@given(tables)
def test_an_idle_segment_gets_exactly_0(table):
    """Each score twice, with and without one more segment."""
    assert values_of(table + table)[-1] == 0.0


@settings(max_examples=choose_examples(100))
@given(st.integers(2, 12), st.integers(60, 300), st.booleans(), st.integers(0, 5), st.floats(0, 0.3))
def test_values_sum_to_the_whole_minus_the_empty_score(segments, calls, is_random, seed, lost):
    plan = plan_sets(segments, calls, is_random=is_random, seed=seed)
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(len(plan.masks), plan.repeats))
    table[rng.random(table.shape) < lost] = np.nan
    result = attribute(plan, table)

    assert result.missing == np.isnan(table).sum()
    assert np.isnan(result.shapley).all() or result.shapley.sum() == pytest.approx(result.whole - result.empty)


def test_lost_sets_leave_out_the_orders_that_need_them():
    """Without the set {1}, the only order left adds 0 first."""
    plan = plan_sets(2, 4, is_random=False, seed=0)
    table = score_sets(plan, lambda stays: stays[0] or stays[1])
    table[plan.masks.index(2)] = np.nan
    result = attribute(plan, table)

    assert result.shapley.tolist() == [1.0, 0.0]
    assert (result.missing, result.is_exact) == (1, False)
    assert np.isnan(result.low).all()
    assert np.isnan(result.left_out).tolist() == [True, False]


def test_a_lost_pair_of_permutations_leaves_the_others():
    plan = plan_sets(12, 200, is_random=False, seed=0)
    table = score_sets(plan, claims)
    table[-1] = np.nan
    result = attribute(plan, table)

    assert result.shapley == pytest.approx([0.25, 0.25, 0.2] + [0.0] * 9, abs=1e-12)
    assert np.isfinite(result.low).all()
    assert result.missing == 1


@pytest.mark.parametrize("segments", [4, 12])
def test_nothing_is_known_without_the_whole_prompt(segments):
    plan = plan_sets(segments, 200, is_random=False, seed=0)
    table = score_sets(plan, claims)
    table[0] = np.nan
    result = attribute(plan, table)

    assert np.isnan(result.shapley).all()
    assert np.isnan(result.low).all()
    assert math.isnan(result.whole)


def test_a_lost_draw_leaves_the_other_draws_of_its_set():
    plan = plan_sets(3, 80, is_random=True, seed=0)
    table = np.random.default_rng(0).normal(size=(8, 10))
    table[0, :9] = np.nan
    result = attribute(plan, table)

    assert result.whole == table[0, 9]
    assert np.isfinite(result.low).all()


def test_values_are_known_before_all_sets_are_scored():
    plan = plan_sets(6, 64, is_random=False, seed=0)
    table = score_sets(plan, claims)
    table[32:] = np.nan
    result = attribute(plan, table)

    assert result.shapley.sum() == pytest.approx(0.7)
    assert result.missing == 32


def test_equal_arms_do_not_differ():
    plan = plan_sets(12, 200, is_random=False, seed=0)
    table = score_sets(plan, lambda stays: math.prod(stays[:3]))
    result = attribute_difference(plan, table, table)

    assert result.shapley.tolist() == [0.0] * 12
    assert (result.low <= 0).all()
    assert (result.high - result.low).max() < 1e-10
    assert result.requested == 2 * len(plan.masks)


def test_a_difference_is_the_candidates_value_minus_the_baselines():
    plan = plan_sets(5, 160, is_random=True, seed=0)
    rng = np.random.default_rng(0)
    candidate, baseline = rng.normal(size=(2, 32, 5))
    result = attribute_difference(plan, candidate, baseline)
    both = attribute(plan, candidate), attribute(plan, baseline)

    assert result.shapley == pytest.approx(both[0].shapley - both[1].shapley)
    widths = [entry.high - entry.low for entry in (result, *both)]
    assert (widths[0] > np.maximum(widths[1], widths[2])).all()
    assert (widths[0] < widths[1] + widths[2]).all()


def test_random_replies_with_one_draw_have_no_intervals():
    plan = plan_sets(12, 60, is_random=True, seed=0)
    result = attribute(plan, score_sets(plan, claims))

    assert plan.repeats == 1
    assert np.isnan(result.low).all()
    assert np.isfinite(result.shapley).all()


def test_yes_and_no_that_never_vary_still_have_wide_intervals():
    """Two draws of 1 do not show that the third would be 1."""
    result = attribute_function(lambda stays: stays[0], 3, 16, is_random=True)

    assert (result.high - result.low).min() > 0.2


def test_scores_of_another_shape_infinite_ones_and_an_impossible_confidence_are_refused():
    plan = plan_sets(3, 8, is_random=False, seed=0)

    with pytest.raises(ValueError, match=r"the shape \(8,\); the plan has 8 sets x 1 draws"):
        attribute(plan, np.zeros(8))
    with pytest.raises(ValueError, match="scores must be finite"):
        attribute(plan, np.full((8, 1), np.inf))
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        attribute(plan, np.zeros((8, 1)), confidence=95)


@pytest.mark.slow
def test_six_features_equal_the_exact_explainer_of_shap():
    shap = pytest.importorskip("shap", reason="shap is not installed")
    rng = np.random.default_rng(0)
    weights = rng.normal(size=6)

    def predict(rows):
        return rows @ weights + 3 * rows[:, 0] * rows[:, 1] - 2 * rows[:, 2] * rows[:, 3] * rows[:, 4]

    row, background = rng.normal(size=6), rng.normal(size=6)
    explainer = shap.explainers.Exact(predict, shap.maskers.Independent(background[None], max_samples=1))
    result = attribute_function(lambda stays: predict(np.where(stays, row, background)[None])[0], 6, 64)

    assert result.shapley == pytest.approx(explainer(row[None]).values[0])
