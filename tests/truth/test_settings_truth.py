"""Marginal means of settings and their differences, where the truth is known."""

from __future__ import annotations

import pytest
from run_sizes import choose_runs
from setting_evals import SETTINGS, count_covered
from simulation import at_least

pytestmark = pytest.mark.slow

RUNS = choose_runs(200)


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_of_settings_cover(name):
    covered = count_covered(SETTINGS[name], RUNS, seed=1)

    # Intervals of one run are related: a run counts once.
    assert at_least(round(RUNS * covered.means / covered.of_means), RUNS, 0.94)
    assert at_least(round(RUNS * covered.differences / covered.of_differences), RUNS, 0.94)
