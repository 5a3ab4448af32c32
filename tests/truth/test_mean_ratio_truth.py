"""Ratios of means of amounts with a known end: the errors of their bounds, and of the test that alike arms are alike."""

from __future__ import annotations

import pytest
from mean_ratio_evals import ALIKE, SHAPES, SIZES, bound_errors, gate_errors
from run_sizes import choose_runs
from simulation import at_most

pytestmark = pytest.mark.slow

RUNS = choose_runs(400)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_ratio_of_means_is_beyond_its_bounds_at_most_as_often_as_alpha_says(name, n, grouped):
    for alpha, share in bound_errors(name, n, RUNS, grouped=grouped).items():
        assert at_most(round(share * RUNS), RUNS, alpha), (alpha, share)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ALIKE)
def test_arms_that_are_alike_are_called_different_at_most_as_often_as_alpha_says(name, n, grouped):
    assert at_most(round(gate_errors(name, n, RUNS, grouped=grouped) * RUNS), RUNS, 0.05)
