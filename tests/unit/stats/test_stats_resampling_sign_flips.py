"""Grids of scores, and the sums of differences under random signs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.stats.resampling.draws import draw_sums
from pytest_crucible.stats.selection.winner import find_grid


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.25, 0.75, 1.0], 0.25),
        ([1, 2, 5], 1.0),
        ([0.1, 0.3, 0.9], 0.2),
        ([0, 1 / 3, 1], 1 / 3),
        ([2.5, 7.123456], 4.623456),
        ([120, 240, 600], 120),
    ],
)
def test_the_grid_is_the_coarsest_that_holds_all_values(values, step):
    grid = find_grid(values)

    assert grid.step == pytest.approx(step, rel=1e-12)
    assert grid.origin + grid.step * grid.cells == pytest.approx(np.array(values, dtype=float), abs=1e-12)
    assert np.gcd.reduce(grid.cells) == 1


def test_scores_on_no_grid_have_none():
    assert find_grid(np.random.default_rng(1).normal(size=50)) is None
    assert find_grid([]) is None


def test_a_grid_of_differences_goes_through_zero():
    grid = find_grid([-0.3, 0.1, 0.2 + 1e-17], origin=0.0)

    assert (grid.step, grid.cells.tolist()) == (pytest.approx(0.1), [-3, 1, 2])


def test_equal_values_are_a_grid_of_one_cell():
    assert find_grid([0.7, 0.7]).cells.tolist() == [0, 0]


def test_random_flips_have_the_moments_of_random_signs():
    differences = np.random.default_rng(2).normal(size=(37, 2))
    sums = draw_sums(differences, 40_000, np.random.default_rng(0))
    covariance = differences.T @ differences

    assert sums.shape == (40_000, 2)
    assert np.abs(sums.mean(axis=0) / np.sqrt(np.diag(covariance))).max() < 4 / math.sqrt(40_000)
    assert np.cov(sums.T) == pytest.approx(covariance, rel=0.05, abs=0.05 * covariance.max())
