"""Sessions with stages are rarely wrong: looks between stages have their share of alpha, and the last stage keeps its rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_most
from stage_evals import ALPHA, staged_session

pytestmark = pytest.mark.slow

SESSIONS = choose_runs(200)


def print_share(what, hits, runs):
    share = hits / runs
    print(f"{what}: {share:.3f} +- {math.sqrt(share * (1 - share) / runs):.3f} (standard error; of {runs})")
    return hits


@pytest.mark.parametrize(
    ("lost", "targets"), [(0.0, True), (0.05, True), (0.0, False)], ids=["complete", "lost", "pairs"]
)
def test_sessions_in_which_nothing_is_wrong_prove_nothing(lost, targets):
    """Each experiment compares equal arms and, except in the last case, has a target at the true mean; two have groups."""
    rng = np.random.default_rng([1, int(100 * lost), targets])
    sessions = [staged_session(rng, lost=lost, targets=targets) for _ in range(SESSIONS)]
    of_session = [[verdict for verdict in verdicts if verdict.proven] for verdicts, _ in sessions]
    missed = print_share(
        "false misses", sum(any(entry.state == "missed" for entry in proven) for proven in of_session), SESSIONS
    )
    proven = print_share("false proofs", sum(map(bool, of_session)), SESSIONS)
    ended = print_share("ended before the last stage", sum(stage < 2 for _, stage in sessions), SESSIONS)

    assert at_most(missed, SESSIONS, ALPHA)
    assert at_most(proven, SESSIONS, ALPHA)
    assert at_most(ended, SESSIONS, ALPHA)


def test_a_broken_candidate_ends_the_session_after_the_first_stages():
    rng, runs = np.random.default_rng(2), SESSIONS // 4
    sessions = [staged_session(rng, drop=0.9) for _ in range(runs)]
    print_share("ended after smoke", sum(stage == 0 for _, stage in sessions), runs)
    early = print_share("ended before the last stage", sum(stage < 2 for _, stage in sessions), runs)

    assert early >= 0.95 * runs
