"""Sessions with --crucible-stop are rarely wrong: looking after every sample costs samples, not errors."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from session_evals import ALPHA, KINDS, mean_score, one_claim, session
from simulation import at_most

pytestmark = pytest.mark.slow

SESSIONS = 25


@pytest.mark.parametrize("lost", [0.0, 0.05], ids=["complete", "5 % lost"])
def test_sessions_in_which_nothing_differs_prove_nothing(lost):
    rng = np.random.default_rng([1, int(100 * lost)])
    claimed = sum(any(verdict.proven for verdict in session(rng, lost=lost).verdicts) for _ in range(SESSIONS))

    assert at_most(claimed, SESSIONS, ALPHA)


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_a_target_at_the_truth_is_rarely_settled(kind):
    rng, runs, truth = np.random.default_rng(2), choose_runs(240), mean_score(kind)
    states = [one_claim(rng, kind, 200, target=truth)[0] for _ in range(runs)]

    assert at_most(states.count("met"), runs, ALPHA)
    assert at_most(states.count("missed"), runs, ALPHA)


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_a_comparison_of_equal_arms_is_rarely_settled(kind):
    rng, runs = np.random.default_rng(3), choose_runs(240)
    proven = sum(one_claim(rng, kind, 200)[1] for _ in range(runs))

    assert at_most(proven, runs, ALPHA)


def test_a_clear_difference_takes_half_of_the_samples():
    rng, runs = np.random.default_rng(4), choose_runs(200)
    ends = [one_claim(rng, "bits", 300, drop=0.35) for _ in range(runs)]

    assert np.mean([share for *_, share in ends]) <= 0.5
    assert {(state, proven) for state, proven, _ in ends} == {("missed", True)}
