"""The distributions of resampled statistics: computed ones are the enumerated ones, and the intervals read them rightly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.resampling import sign_flips
from pytest_crucible.stats.resampling.permutation import can_count, count_subsets_at_least, draw_subset_sums
from pytest_crucible.stats.resampling.sign_flips import (
    Distribution,
    compute_sign_flip_distribution,
    count_sums_at_least,
    draw_sums,
    find_grid,
    list_sums,
)

HUNDREDTHS = st.integers(-300, 300).map(lambda cell: cell / 100)
DIFFERENCES = st.lists(HUNDREDTHS, min_size=1, max_size=9)


# -- grids --------------------------------------------------------------------------------------------------------


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


# -- bootstrap distributions -----------------------------------------------------------------------------------------------


# -- reading a distribution ------------------------------------------------------------------------------------------------


def test_a_computed_distribution_has_the_smallest_value_that_reaches_the_share():
    distribution = Distribution(values=np.array([1.0, 2.0, 3.0]), weights=np.array([0.25, 0.5, 0.25]))

    assert [distribution.quantile(share) for share in (0.2, 0.25, 0.26, 0.75, 0.76)] == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert (distribution.mean, distribution.deviation) == (2.0, math.sqrt(0.5))


# -- sign flips and subsets ---------------------------------------------------------------------------------------


@given(DIFFERENCES, HUNDREDTHS)
def test_every_way_to_the_sign_flip_sums_agrees(differences, threshold):
    differences = np.array(differences)
    sums = np.array([np.dot(signs, differences) for signs in itertools.product((-1, 1), repeat=differences.size)])
    wanted = int(np.sum(sums >= threshold - 1e-9))
    distribution = compute_sign_flip_distribution(differences)

    assert np.sort(list_sums(differences)) == pytest.approx(np.sort(sums), abs=1e-12)
    assert count_sums_at_least(differences, threshold - 1e-9) == wanted
    assert distribution.weights[distribution.values >= threshold - 1e-9].sum() * sums.size == pytest.approx(
        wanted, abs=1e-9
    )


def test_the_grid_distribution_of_equal_steps_is_binomial():
    distribution = compute_sign_flip_distribution([0.5] * 60)

    assert distribution.weights[0] == 2.0**-60
    assert distribution.weights == pytest.approx([math.comb(60, k) / 2**60 for k in range(61)], rel=1e-12)
    assert distribution.resolution == 0.0


def test_a_shortened_distribution_leaves_out_only_what_it_says(monkeypatch):
    differences = np.random.default_rng(5).integers(-9, 10, 400).astype(float)
    whole = compute_sign_flip_distribution(differences)
    monkeypatch.setattr(sign_flips, "MOST_STEPS", 700_000)
    shortened = compute_sign_flip_distribution(differences)
    kept = np.isin(whole.values, shortened.values)

    assert (whole.resolution, shortened.resolution) == (0.0, 1e-15)
    assert shortened.values.size < whole.values.size
    assert shortened.weights == pytest.approx(whole.weights[kept], abs=1e-18)
    assert whole.weights[~kept].sum() < 1e-17

    monkeypatch.setattr(sign_flips, "MOST_STEPS", 1000)
    assert compute_sign_flip_distribution(differences) is None


def test_a_p_value_of_the_grid_distribution_keeps_its_digits_far_out():
    distribution = compute_sign_flip_distribution(np.r_[np.ones(200), -np.ones(2)])

    assert distribution.weights[-1] == 2.0**-202
    assert distribution.weights[-2] == pytest.approx(202 * 2.0**-202, rel=1e-12)


def test_random_flips_have_the_moments_of_random_signs():
    differences = np.random.default_rng(2).normal(size=(37, 2))
    sums = draw_sums(differences, 40_000, np.random.default_rng(0))
    covariance = differences.T @ differences

    assert sums.shape == (40_000, 2)
    assert np.abs(sums.mean(axis=0) / np.sqrt(np.diag(covariance))).max() < 4 / math.sqrt(40_000)
    assert np.cov(sums.T) == pytest.approx(covariance, rel=0.05, abs=0.05 * covariance.max())


@given(st.lists(HUNDREDTHS, min_size=2, max_size=9), st.data(), HUNDREDTHS)
def test_counting_subsets_by_halves_counts_all_of_them(values, data, threshold):
    size = data.draw(st.integers(1, len(values) - 1))
    sums = np.array([sum(chosen) for chosen in itertools.combinations(values, size)])

    assert count_subsets_at_least(np.array(values), size, threshold - 1e-9) == np.sum(sums >= threshold - 1e-9)


def test_listing_subsets_agrees_with_halves():
    values = np.arange(40.0)

    assert can_count(40, 3)
    assert not can_count(40, 20)
    assert not can_count(100_000, 50_000)
    assert count_subsets_at_least(values, 3, 39 + 38 + 36) == 2
    assert count_subsets_at_least(values, 3, -1.0) == math.comb(40, 3)


def test_random_subsets_choose_every_member_alike():
    values = np.array([1.0, 10.0, 100.0, 1000.0, 10_000.0])
    sums = draw_subset_sums(values, 2, 20_000, np.random.default_rng(0))
    found, counts = np.unique(sums, return_counts=True)

    assert set(found) == {sum(pair) for pair in itertools.combinations(values, 2)}
    assert np.abs(counts - 2000).max() < 5 * math.sqrt(2000)
