"""Whole sweeps where the true means are known: claims, the winner's estimate, and the best member."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_least, at_most
from sweep_evals import SweepEval, equal, lift
from whole_sweeps import run_sweep

pytestmark = pytest.mark.slow

RUNS = choose_runs(800)
EQUAL = {
    "2 members": SweepEval(100, equal(3)),
    "8 members": SweepEval(100, equal(9)),
    "8 members near 1": SweepEval(200, equal(9, 0.95)),
    "8 members, scores": SweepEval(100, equal(9), "scores"),
    "8 members, passages": SweepEval(200, equal(9), clustered=True),
    "32 members": SweepEval(100, equal(33)),
}
BEST = {
    "2 members, few samples": SweepEval(40, lift(equal(3), 0.02)),
    "8 members": SweepEval(100, lift(equal(9), 0.02)),
    "8 members near 1": SweepEval(100, lift(equal(9, 0.9), 0.02)),
    "8 members, scores": SweepEval(100, lift(equal(9), 0.01), "scores"),
    "8 members, passages": SweepEval(200, lift(equal(9), 0.02), clustered=True),
}


@pytest.mark.parametrize("name", EQUAL)
def test_members_no_better_than_the_baseline_are_seldom_claimed_to_be_and_the_estimate_is_unbiased(name):
    case = EQUAL[name]
    runs = [run_sweep(case, values) for values in case.draw(RUNS, seed=5)]
    confirmed = np.array([run.confirmed for run in runs]) - case.means[0]

    assert at_most(sum(run.claims for run in runs), RUNS, 0.05)
    assert at_least(sum(run.covers for run in runs), RUNS, 0.94)
    assert abs(confirmed.mean()) <= 4 * confirmed.std() / np.sqrt(RUNS)
    # On the half that chose, it is not.
    assert np.mean([run.naive for run in runs]) > case.means[0] + 2 * confirmed.std() / np.sqrt(RUNS)


@pytest.mark.parametrize("name", BEST)
def test_the_best_member_is_seldom_dropped(name):
    case = BEST[name]
    runs = [run_sweep(case, values) for values in case.draw(RUNS, seed=6)]

    assert at_most(sum(0 not in run.live for run in runs), RUNS, 0.05)


def test_poor_members_cost_less_than_half_of_the_replies():
    case = SweepEval(600, (0.8, *equal(7, 0.6), 0.6))
    runs = [run_sweep(case, values) for values in case.draw(choose_runs(80), seed=7)]

    assert np.mean([run.replies for run in runs]) <= 0.5 * 8 * 300
    assert {run.winner for run in runs} == {0}
