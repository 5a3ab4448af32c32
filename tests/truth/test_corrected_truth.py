"""Drops corrected by labels: the interval has the truth, with groups and with several replies to a sample."""

from __future__ import annotations

import pytest
from corrected_evals import EXPERIMENTS, corrected_drops
from run_sizes import choose_runs
from simulation import at_least

pytestmark = pytest.mark.slow
RUNS = choose_runs(2000)


@pytest.mark.parametrize("known", EXPERIMENTS, ids=lambda known: f"{known.name}, {known.labels} labels")
def test_a_corrected_drop_is_covered(known):
    covered = sum(has_truth for has_truth, _, _ in corrected_drops(known, RUNS))

    print(f"{known.name}: covered {covered / RUNS:.3f}")
    assert at_least(covered, RUNS, 0.94)
