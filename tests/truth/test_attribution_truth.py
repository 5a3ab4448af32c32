"""Joint intervals of attributions cover, and deletion curves rarely err, where the true values are known."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_evals import REPLIES, SHAPES, count_covered, draw_runs, memberships, true_values
from run_sizes import choose_runs
from simulation import at_least, at_most, show_share

from pytest_crucible.stats.attribution.deletion import judge_deletion, plan_deletion
from pytest_crucible.stats.attribution.sets import extend_plan, plan_sets
from pytest_crucible.stats.attribution.values import attribute_difference

pytestmark = pytest.mark.slow

RUNS = choose_runs(200)
COVERAGE = 0.93
FEW_REPLIES = ("fixed", "yes or no", "three grades", "a little noise")
DESIGNS = [
    *((4, 200, replies) for replies in REPLIES),
    *((6, 200, replies) for replies in FEW_REPLIES[1:]),
    *((segments, calls, replies) for segments, calls in ((8, 200), (12, 300)) for replies in FEW_REPLIES),
]


@pytest.mark.parametrize(("segments", "calls", "replies"), DESIGNS)
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_jointly(segments, calls, replies, shape):
    covered = count_covered(shape, replies, segments, calls, RUNS)

    assert at_least(show_share(f"{segments} segments, {shape}, {replies}", covered, RUNS), RUNS, COVERAGE)


@pytest.mark.parametrize("calls", [32, 48, 64])
@pytest.mark.parametrize("shape", ["null", "additive", "sparse", "necessary pair", "any function", "all necessary"])
@pytest.mark.parametrize("replies", REPLIES)
def test_intervals_hold_with_two_to_four_draws_of_each_set(calls, shape, replies):
    assert at_least(count_covered(shape, replies, 4, calls, 2 * RUNS), 2 * RUNS, COVERAGE)


@pytest.mark.parametrize("calls", [98, 120])
@pytest.mark.parametrize(
    "shape", ["three necessary", "four redundant", "parity of three", "weighted majority", "any function"]
)
def test_intervals_hold_with_few_permutations(calls, shape):
    """Four or five pairs: three necessary segments change by the same in all four in 1 of 27 runs."""
    assert at_least(count_covered(shape, "fixed", 12, calls, 2 * RUNS), 2 * RUNS, COVERAGE)


@pytest.mark.parametrize(("segments", "calls"), [(4, 64), (8, 200)])
def test_intervals_of_differences_hold(segments, calls):
    """The candidate answers yes or no, the baseline in grades."""
    covered = 0
    for plan, candidate, truth in draw_runs("any function", "yes or no", segments, calls, RUNS):
        table = SHAPES["necessary pair"](memberships(segments), np.random.default_rng(0))
        means = np.repeat(table[list(plan.masks)][:, None], plan.repeats, axis=1)
        baseline = REPLIES["three grades"](means, np.random.default_rng(plan.seed))
        result = attribute_difference(plan, candidate, baseline)
        change = truth - true_values(table)
        covered += bool(((result.low <= change) & (change <= result.high)).all())

    assert at_least(covered, RUNS, COVERAGE)


NULLS = {(4, 64): "yes or no", (5, 200): "much noise", (8, 600): "much noise", (8, 500): "yes or no"}


@pytest.mark.parametrize(("segments", "calls"), NULLS)
def test_orders_chosen_by_noise_rarely_beat_random_ones(segments, calls):
    runs = 5 * RUNS
    claims = sum(p is not None and p <= 0.05 for p in draw_p_values(segments, calls, NULLS[segments, calls], runs))

    assert at_most(show_share(f"{segments} segments, {calls} requests", claims, runs), runs, 0.05)


def draw_p_values(segments, calls, replies, runs):
    """Yield the p-value of an order chosen by replies that only vary, as its own noise decides."""
    for seed, (plan, scores, _) in enumerate(draw_runs("null", replies, segments, calls, runs)):
        deletion = plan_deletion(plan, scores, calls)
        longer = extend_plan(plan, deletion.masks)
        rng = np.random.default_rng(seed)
        further = REPLIES[replies](np.full((len(deletion.masks), plan.repeats), 0.5), rng)
        yield judge_deletion(longer, deletion, np.vstack([scores, further])).p


def test_draws_that_choose_an_order_cannot_judge_it():
    """The same as fixed replies: noise alone would beat random orders."""
    claims = 0
    for seed in range(RUNS):
        plan = plan_sets(5, 32, is_random=False, seed=seed)
        scores = np.random.default_rng(seed).normal(size=(32, 1))
        p = judge_deletion(plan, plan_deletion(plan, scores, 32), scores).p
        claims += p is not None and p <= 0.05

    assert claims > 0.15 * RUNS


def test_right_orders_beat_random_ones_although_replies_vary():
    claims = 0
    for plan, scores, _ in draw_runs("additive", "a little noise", 5, 320, RUNS):
        p = judge_deletion(plan, plan_deletion(plan, scores, 320), scores).p
        claims += p is not None and p < 0.05

    assert claims > 0.8 * RUNS
