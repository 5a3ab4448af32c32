"""Deletion curves: right, reversed and meaningless orders, random replies, and what leaves no p-value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_crucible.stats.attribution.deletion import DeletionCurve, judge_deletion, plan_deletion
from pytest_crucible.stats.attribution.sets import SetPlan, extend_plan, plan_sets

WEIGHTS = [0.02, 0.3, 0.07, 0.15, 0.0, 0.25, 0.01, 0.04, 0.03, 0.05, 0.06, 0.02]


def add(stays):
    return 0.1 + sum(weight for weight, stay in zip(WEIGHTS, stays, strict=False) if stay)


def score_sets(plan: SetPlan, function) -> np.ndarray:
    rows = [function([mask >> segment & 1 for segment in range(plan.segments)]) for mask in plan.masks]
    return np.repeat(np.array(rows, dtype=float)[:, None], plan.repeats, axis=1)


def judge(function, segments: int, calls: int, *, is_reversed: bool = False, is_random: bool = False) -> DeletionCurve:
    plan = plan_sets(segments, calls, is_random=is_random, seed=0)
    deletion = plan_deletion(plan, score_sets(plan, function), calls)
    if is_reversed:
        # As if the attribution had the opposite signs.
        deletion = plan_deletion(plan, -score_sets(plan, function), calls)
    longer = extend_plan(plan, deletion.masks)
    assert len(longer.masks) * plan.repeats <= calls
    return judge_deletion(longer, deletion, score_sets(longer, function))


@pytest.mark.parametrize(("segments", "calls"), [(4, 16), (5, 32), (8, 256), (8, 200), (12, 200), (12, 400)])
@pytest.mark.parametrize("is_random", [False, True])
def test_the_right_order_beats_random_ones_and_the_reversed_does_not(segments, calls, is_random):
    calls *= 3 if is_random else 1
    right, wrong = (judge(add, segments, calls, is_reversed=each, is_random=is_random) for each in (False, True))

    assert right.order[:3] == ((1, 3, 2) if segments < 6 else (1, 5, 3))
    assert right.p < 0.05
    assert right.verdict == "better"
    assert wrong.order[-1] == 1
    assert wrong.p > 0.5
    assert wrong.verdict == "no better"
    assert (right.curve[1:-1] < wrong.curve[1:-1]).all()


def test_the_curve_goes_from_the_whole_to_the_empty_score():
    result = judge(add, 4, 16)

    assert result.removed == (0, 1, 2, 3, 4)
    assert result.curve == pytest.approx([0.64, 0.34, 0.19, 0.12, 0.1])
    assert result.random_orders == 23
    assert (result.random_low < result.random_mean + 1e-12).all()
    assert (result.random_mean < result.random_high + 1e-12).all()
    assert result.p == 1 / 24


def test_necessary_pairs_are_not_in_the_order_that_deletes_best():
    """One of the two is enough to lose both, so that removing the third next is better than the order by value."""
    result = judge(lambda stays: 0.1 + 0.5 * (stays[0] and stays[1]) + 0.2 * stays[2], 4, 16)

    assert result.p == 8 / 24


@pytest.mark.parametrize("segments", [4, 12])
@pytest.mark.parametrize("is_random", [False, True])
def test_a_constant_metric_is_undefined(segments, is_random):
    result = judge(lambda stays: 0.7, segments, 800, is_random=is_random)

    assert (result.p, result.verdict, result.reason) == (None, "undefined", "the metric never changed")


def test_fewer_than_four_segments_have_no_p():
    result = judge(add, 3, 8)

    assert (result.p, result.verdict) == (None, "undefined")
    assert result.reason == "fewer than 4 segments have too few orders"
    assert result.curve == pytest.approx([0.49, 0.19, 0.12, 0.1])


def test_few_calls_leave_no_p():
    result = judge(add, 12, 54)

    assert (result.p, result.verdict) == (None, "undefined")
    assert result.reason in ("4 random orders are too few; 20 are needed", "scores of the order are missing")


def test_random_replies_with_one_draw_leave_no_p():
    result = judge(add, 12, 60, is_random=True)

    assert result.reason == "replies vary and each version has a single one"


def test_segments_that_all_do_the_same_are_no_better():
    result = judge(lambda stays: sum(stays) / 5, 5, 32)

    assert (result.p, result.verdict) == (1.0, "no better")


def test_lost_scores_leave_out_the_orders_that_need_them():
    plan = plan_sets(5, 32, is_random=False, seed=0)
    table = score_sets(plan, add)
    table[plan.masks.index(0b00001)] = np.nan
    result = judge_deletion(plan, plan_deletion(plan, table, 32), table)

    assert result.random_orders == 119 - 24
    assert result.p is not None

    table[0] = np.nan
    result = judge_deletion(plan, plan_deletion(plan, table, 32), table)
    assert (result.order, result.p, result.reason) == ((), None, "scores of the order are missing")


def test_one_half_of_the_draws_chooses_the_order_and_the_other_judges_it():
    plan = plan_sets(4, 64, is_random=True, seed=0)
    chosen = np.hstack([score_sets(plan, add)[:, :2], score_sets(plan, lambda stays: 1 - add(stays))[:, 2:]])
    deletion = plan_deletion(plan, chosen, 64)

    assert deletion.order == (1, 3, 2, 0)
    assert judge_deletion(plan, deletion, chosen).p == 1.0


def test_seventy_segments_fit_into_no_machine_integer():
    result = judge(lambda stays: 0.1 + 0.8 * stays[69] + 0.1 * stays[3], 70, 4_000)

    assert result.order[:2] == (69, 3)
    assert result.p < 0.05


def test_the_plan_of_one_metric_serves_another():
    plan = plan_sets(12, 300, is_random=False, seed=0)
    for function in (add, lambda stays: -add(stays)):
        deletion = plan_deletion(plan, score_sets(plan, function), 300)
        plan = extend_plan(plan, deletion.masks)
        assert judge_deletion(plan, deletion, score_sets(plan, function)).p < 0.05


def test_a_plan_is_not_changed_by_judging():
    plan = plan_sets(4, 16, is_random=False, seed=0)
    table = score_sets(plan, add)
    before = replace(plan), table.copy()
    judge_deletion(plan, plan_deletion(plan, table, 16), table)

    assert plan == before[0]
    assert (table == before[1]).all()
