"""Costs and promises of a session's family: false claims at most alpha, and margins that cost a true claim nothing.

`python -m benchmarks.calibration` prints the same sessions.
"""

from __future__ import annotations

import pytest
from families import ALPHA, FAMILIES
from run_sizes import choose_runs

pytestmark = pytest.mark.slow

RUNS = choose_runs(2000)
FOUR_ERRORS_OF_ALPHA = 4 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5
FOUR_ERRORS_OF_POWER = 4 * (0.82 * (1 - 0.82) / RUNS) ** 0.5
TWO_SIDED, ONE_SIDED = 0.82, 0.891
"""Power of 9 points alone: of a p-value, and of the one-sided bound that decides superiority."""


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.looked_for == "a false claim"])
def test_a_session_in_which_nothing_differs_claims_a_difference_at_most_at_alpha(name):
    assert FAMILIES[name].share(RUNS, seed=1) <= ALPHA + FOUR_ERRORS_OF_ALPHA


@pytest.mark.parametrize(
    ("name", "alone", "power"),
    [
        ("-9 points beside 9 margins", "-9 points, alone", TWO_SIDED),
        ("-9 points, relevant 4, alone", "-9 points, alone", TWO_SIDED),
        ("+9 points, better and before it not worse", "+9 points, better", ONE_SIDED),
    ],
)
def test_margins_and_relevant_differences_cost_a_true_claim_nothing(name, alone, power):
    assert FAMILIES[name].share(RUNS, seed=2) == pytest.approx(power, abs=FOUR_ERRORS_OF_POWER)
    assert FAMILIES[alone].share(RUNS, seed=2) == pytest.approx(power, abs=FOUR_ERRORS_OF_POWER)


def test_an_equal_candidate_is_rarely_proven_better():
    assert FAMILIES["better, and it is equal"].share(RUNS, seed=3) <= ALPHA + FOUR_ERRORS_OF_ALPHA
