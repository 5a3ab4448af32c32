"""Drops corrected by labels: the interval has the truth, with groups and with several replies to a sample."""

from __future__ import annotations

import pytest
from corrected_evals import EXPERIMENTS, corrected_drops
from run_sizes import choose_runs
from simulation import at_least

pytestmark = pytest.mark.slow
RUNS = choose_runs(2000)


@pytest.mark.parametrize("case", EXPERIMENTS, ids=lambda case: f"{case.name}, {case.labels} labels")
def test_a_corrected_drop_is_covered(case):
    covered = sum(has_truth for has_truth, _, _ in corrected_drops(case, RUNS))

    print(f"{case.name}: covered {covered / RUNS:.3f}")
    assert at_least(covered, RUNS, 0.94)
