"""Ranks of arms in sessions that end at a stage, where the true means are known."""

from __future__ import annotations

import pytest
from run_sizes import choose_runs
from simulation import at_least
from staged_rank_evals import STAGED, count_right_sessions

pytestmark = pytest.mark.slow

RUNS = choose_runs(200)


@pytest.mark.parametrize("name", STAGED)
def test_all_true_ranks_and_differences_are_inside_where_the_session_ends(name):
    right = count_right_sessions(STAGED[name], RUNS, seed=5)

    assert at_least(right.ranks, RUNS, 0.95)
    assert at_least(right.best, RUNS, 0.95)
    assert at_least(right.differences, RUNS, 0.95)


def test_a_broken_candidate_ends_the_session_before_its_last_sample():
    runs = RUNS // 8

    assert count_right_sessions(STAGED["8, the candidate 40 points worse"], runs, seed=6).ended >= 0.95 * runs
