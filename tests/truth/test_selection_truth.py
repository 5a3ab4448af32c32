"""The winner's corrected estimate and intervals for ranks, where the true means are known."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_least, at_most
from sweep_evals import CHOSEN, RANKED, SweepEval, count_false, count_right, equal, lift, spread

from pytest_crucible.stats import (
    WinnerResult,
    compare,
    holm,
    rank_arms,
    winner_from_values,
)

pytestmark = pytest.mark.slow

RUNS = choose_runs(1200)
DRAWS = 2_000
WINNERS = {
    "2 equal": SweepEval(100, equal(2)),
    "8 equal": SweepEval(100, equal(8)),
    "32 equal": SweepEval(100, equal(32)),
    "32 equal near 1": SweepEval(100, equal(32, 0.9)),
    "8 equal, scores": SweepEval(100, equal(8), "scores"),
    "32 equal, scores": SweepEval(100, equal(32), "scores"),
    "8 equal, passages": SweepEval(200, equal(8), clustered=True),
    "32 equal, passages": SweepEval(200, equal(32), clustered=True),
    "8 unequal": SweepEval(100, spread(8, 0.5, 0.7)),
    "32 unequal": SweepEval(100, spread(32, 0.7, 0.95)),
    "8, one better": SweepEval(100, lift(equal(8), 0.1)),
}


def find_winners(sweep: SweepEval, runs: int = RUNS) -> tuple[list[WinnerResult], np.ndarray]:
    """Return the winners of the runs, and the true mean of each."""
    results = [winner_from_values(values, clusters=sweep.clusters) for values in sweep.draw(runs, seed=1)]
    return results, sweep.truths[[result.arm for result in results]]


@pytest.mark.parametrize("name", WINNERS)
def test_the_corrected_interval_covers_and_the_estimate_is_median_unbiased(name):
    results, truths = find_winners(WINNERS[name])
    pairs = list(zip(results, truths, strict=True))

    assert at_least(sum(entry.interval.low <= truth <= entry.interval.high for entry, truth in pairs), RUNS, 0.94)
    # On a coarse grid of rates the median cannot be exactly 1/2.
    assert at_most(sum(entry.estimate > truth for entry, truth in pairs), RUNS, 0.56)
    assert at_most(sum(entry.estimate < truth for entry, truth in pairs), RUNS, 0.56)


@pytest.mark.parametrize(("name", "most_covered", "least_above"), [("8 equal", 0.9, 0.8), ("32 equal", 0.75, 0.9)])
def test_the_naive_estimate_is_too_high(name, most_covered, least_above):
    results, truths = find_winners(WINNERS[name])
    pairs = list(zip(results, truths, strict=True))

    assert at_most(
        sum(entry.naive_interval.low <= truth <= entry.naive_interval.high for entry, truth in pairs),
        RUNS,
        most_covered,
    )
    assert at_least(sum(entry.naive > truth for entry, truth in pairs), RUNS, least_above)


@pytest.mark.parametrize("name", RANKED)
def test_ranks_the_best_and_differences_from_the_best_are_inside(name):
    # 32 members take ten times as long.
    runs = RUNS // 2 if len(RANKED[name].means) < 32 else RUNS // 6

    assert all(at_least(right, runs, 0.95) for right in count_right(RANKED[name], runs, seed=2))


def test_ranks_that_differ_are_found():
    """Members 0.3 to 0.9 on 100 samples: intervals have fewer than half of all ranks."""
    widths = [
        np.mean([rank.worst - rank.best for rank in rank_arms(values, draws=DRAWS).ranks])
        for values in RANKED["8 apart"].draw(50, seed=3)
    ]

    assert np.mean(widths) < 3.5


AGAINST_BASELINE = {
    "yes or no": SweepEval(50, equal(9)),
    "near 1": SweepEval(100, equal(9, 0.9)),
    "scores": SweepEval(100, equal(9), "scores"),
    "passages": SweepEval(100, equal(9), clustered=True),
    "32 members": SweepEval(50, equal(33)),
}


@pytest.mark.parametrize("name", AGAINST_BASELINE)
def test_holm_makes_any_claim_against_one_baseline_rare(name):
    """The first arm is the baseline of all others, whose comparisons share its noise."""
    sweep = AGAINST_BASELINE[name]
    runs = RUNS // 3
    claims = 0
    for values in sweep.draw(runs, seed=5):
        baseline, *members = values.T
        p_values = [compare(member, baseline, clusters=sweep.clusters).p_value for member in members]
        claims += any(p is not None and p <= 0.05 for p in holm(p_values))

    assert at_most(claims, runs, 0.05)


@pytest.mark.parametrize("name", CHOSEN)
def test_claims_about_a_member_that_the_same_samples_chose_are_rarely_false(name):
    runs = RUNS // 4

    assert all(at_most(false, runs, 0.05) for false in count_false(CHOSEN[name], runs, seed=8))
