"""Memory over sessions: false regressions at most alpha in 20 sessions, and a true one is caught at least as often.

`python -m benchmarks.calibration` prints the same series.
"""

from __future__ import annotations

import pytest
from rerun_evals import ALPHA, DAYS, EXCLUDED, RERUNS, worst_share
from run_sizes import choose_runs

pytestmark = pytest.mark.slow

RUNS = choose_runs(400)
FOUR_ERRORS_OF_ALPHA = 4 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5


@pytest.mark.parametrize("name", [name for name, reruns in RERUNS.items() if not reruns.truth])
def test_where_nothing_differs_twenty_sessions_with_memory_prove_a_regression_at_most_at_alpha(name):
    alone, pooled = RERUNS[name].simulate_red(RUNS, seed=1)

    assert pooled.any(axis=1).mean() <= ALPHA + FOUR_ERRORS_OF_ALPHA
    assert alone.any(axis=1).mean() > 0.12


@pytest.mark.parametrize("name", [name for name, reruns in RERUNS.items() if reruns.truth])
def test_a_true_regression_is_caught_at_least_as_often_as_without_memory(name):
    alone, pooled = RERUNS[name].simulate_red(RUNS, seed=2)

    # The first look is the session itself, and what was proven stays proven.
    assert (pooled[:, 0] == alone[:, 0]).all()
    assert (pooled.mean(axis=0) >= alone.mean(axis=0) - 0.4 / RUNS**0.5).all()
    green_once = [(~red[:, :5]).any(axis=1).mean() for red in (alone, pooled)]
    assert green_once[1] == (~pooled[:, 0]).mean() < green_once[0] - 0.1


def test_a_relevant_regression_is_rarely_excluded_in_twenty_sessions_with_memory():
    runs = choose_runs(100)
    alone, pooled = EXCLUDED.exclude_true_difference(runs, seed=4)

    assert pooled.any(axis=1).mean() <= ALPHA + 4 * (ALPHA * (1 - ALPHA) / runs) ** 0.5
    assert alone.any(axis=1).mean() > 0.2


def test_one_stored_baseline_in_twenty_turns_many_unchanged_sessions_red():
    alone, _ = RERUNS["40 samples, nothing differs, stored baseline"].simulate_red(choose_runs(800), seed=3)

    assert 0.1 < worst_share(alone) < 0.5


@pytest.mark.parametrize("name", DAYS)
def test_noise_between_days_makes_no_regression_from_the_second_session_on(name):
    """The first session knows one day, and says so. As repeats, days of 2 points gave .13 at first and .21 after 20 sessions."""
    runs = choose_runs(150)
    _, pooled = DAYS[name].simulate_red(runs, seed=5)
    later = pooled[~pooled[:, 0]]

    assert later.any(axis=1).mean() <= ALPHA / 2 + 4 * (ALPHA / 2 * (1 - ALPHA / 2) / runs) ** 0.5
