"""An era keeps its error rate however many candidates are tried; fifty candidates without one nearly always have a winner."""

from __future__ import annotations

import numpy as np
import pytest
from era_evals import ALPHA, one_passes
from run_sizes import choose_runs
from simulation import at_least, at_most

pytestmark = pytest.mark.slow


def count_passed(runs: int, *, era: bool, shared: bool) -> int:
    return sum(one_passes(np.random.default_rng([1, run]), era=era, shared=shared) for run in range(runs))


@pytest.mark.parametrize("shared", [False, True], ids=["new answers of production", "the same answers"])
def test_of_fifty_candidates_at_the_margin_one_passes_in_at_most_alpha_of_eras(shared):
    runs = choose_runs(200)

    assert at_most(count_passed(runs, era=True, shared=shared), runs, ALPHA)


def test_without_an_era_one_of_fifty_nearly_always_passes():
    """One passes in 0.92 of eras for bounds that use all of alpha; those of 240 yes-or-no samples use a little less."""
    runs = choose_runs(400)

    assert at_least(count_passed(runs, era=False, shared=False), runs, 0.85)
