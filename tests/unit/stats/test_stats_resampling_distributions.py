"""The distributions of resampled statistics: computed ones are the enumerated ones, and the intervals read them rightly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling import exact_distributions, sign_flips
from pytest_crucible.stats.resampling.distribution import Distribution, tabulate_draws
from pytest_crucible.stats.resampling.exact_distributions import (
    approximate_bootstrap_distribution,
    compute_bootstrap_distribution,
    enumerate_distribution,
    list_resamples,
)
from pytest_crucible.stats.resampling.grid import find_grid
from pytest_crucible.stats.resampling.intervals import (
    basic_interval,
    bca_interval,
    bca_shares,
    bias_correction,
    percentile_interval,
)
from pytest_crucible.stats.resampling.sign_flips import (
    compute_sign_flip_distribution,
    count_sums_at_least,
    draw_sums,
    list_sums,
)
from pytest_crucible.stats.resampling.subsets import can_count, count_subsets_at_least, draw_subset_sums

HUNDREDTHS = st.integers(-300, 300).map(lambda cell: cell / 100)
SAMPLES = st.lists(HUNDREDTHS, min_size=2, max_size=6)
DIFFERENCES = st.lists(HUNDREDTHS, min_size=1, max_size=9)


def all_means(values):
    """Every one of the n^n resamples, the long way."""
    return np.array([np.mean(picks) for picks in itertools.product(values, repeat=len(values))])


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


def test_every_resample_counts_all_of_them():
    picks, counts = list_resamples(4)

    assert counts.sum() == 4**4
    assert len(picks) == math.comb(7, 4)
    with pytest.raises(ValueError, match="9 values"):
        list_resamples(9)


@given(SAMPLES)
def test_the_fft_distribution_is_the_enumerated_one(values):
    listed, computed = enumerate_distribution(values), compute_bootstrap_distribution(values)

    assert computed.values == pytest.approx(listed.values, abs=1e-9)
    assert computed.weights == pytest.approx(listed.weights / listed.resamples, abs=1e-12)


def test_the_enumerated_distribution_is_that_of_all_ordered_resamples():
    values = [0.1, 0.4, 0.4, 0.9, 0.2]
    distribution, means = enumerate_distribution(values), np.sort(all_means(values))

    assert distribution.resamples == 5**5
    assert np.repeat(distribution.values, distribution.weights.astype(int)) == pytest.approx(means, abs=1e-12)
    assert [distribution.quantile(share) for share in (0.05, 0.3, 0.95)] == pytest.approx(
        np.quantile(means, [0.05, 0.3, 0.95]), abs=1e-12
    )


@given(SAMPLES, st.sampled_from([0.01, 0.1, 0.5, 0.9]))
def test_the_fine_distribution_is_near_the_enumerated_one(values, share):
    """Half a step below and half a step above the true quantile, the fine distribution has less and more than that share."""
    listed, fine = enumerate_distribution(values), approximate_bootstrap_distribution(values)
    slack = 1e-3 * (np.ptp(values) or 1.0)

    assert fine.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert fine.deviation == pytest.approx(listed.deviation, rel=1e-4, abs=1e-9)
    at = fine.quantile(share)
    assert listed.share_below(at - slack) <= share + 1e-9
    assert listed.share_below(at + slack) >= share - 1e-9


def test_a_window_around_the_mean_changes_nothing():
    """At n=2000 only a part of all possible sums is computed; one at a time they give the same distribution."""
    values = np.round(np.random.default_rng(3).beta(2, 1, 2000), 1)
    distribution = compute_bootstrap_distribution(values)
    counts = np.bincount(np.rint(values * 10).astype(int), minlength=11) / 2000
    steps = np.arange(11) - 10 * values.mean()

    assert distribution.values.size < 20_000
    assert distribution.mean == pytest.approx(values.mean(), abs=1e-12)
    assert distribution.deviation == pytest.approx(values.std() / math.sqrt(2000), rel=1e-9)
    skewness = counts @ steps**3 / (counts @ steps**2) ** 1.5 / math.sqrt(2000)
    third_moment = distribution.weights @ (distribution.values - distribution.mean) ** 3
    assert third_moment / distribution.deviation**3 == pytest.approx(skewness, rel=1e-6)


def test_a_grid_that_needs_too_long_a_transform_is_refused(monkeypatch):
    monkeypatch.setattr(exact_distributions, "LONGEST", 50)

    assert compute_bootstrap_distribution([0.0, 0.01, 0.5, 0.77, 1.0]) is None


def test_a_distribution_needs_values():
    for compute in (enumerate_distribution, compute_bootstrap_distribution, approximate_bootstrap_distribution):
        with pytest.raises(NotEnoughData, match="0 values"):
            compute([])


def test_one_value_is_a_distribution_of_one_value():
    for distribution in (
        enumerate_distribution([0.3]),
        compute_bootstrap_distribution([0.3]),
        approximate_bootstrap_distribution([0.3, 0.3]),
    ):
        assert distribution.values.tolist() == [0.3]


# -- reading a distribution ------------------------------------------------------------------------------------------------


def test_draws_that_differ_by_rounding_are_one_value():
    distribution = tabulate_draws(np.array([0.3, 0.1 + 0.2, 0.4]), np.array([1.0, 2.0, 5.0]))

    assert distribution.values.tolist() == [0.3, 0.4]
    assert distribution.weights.tolist() == [3.0, 5.0]


def test_undefined_draws_are_counted():
    with pytest.raises(ValueError, match="1 of 3"):
        tabulate_draws(np.array([1.0, math.nan, 2.0]))


def test_infinite_draws_keep_the_other_quantiles():
    distribution = tabulate_draws(np.array([-math.inf, -math.inf, 0.0, 1.0, 2.0, math.inf, math.inf]))

    assert distribution.quantile(0.5) == 1.0
    assert distribution.quantile(0.01) == -math.inf
    assert distribution.quantile(0.99) == math.inf


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=30), st.floats(0.01, 0.99)
)
def test_quantiles_of_draws_are_those_of_numpy(draws, share):
    distribution = tabulate_draws(np.array(draws))

    assert distribution.quantile(share) == pytest.approx(np.quantile(draws, share), rel=1e-9, abs=1e-9)


def test_a_computed_distribution_has_the_smallest_value_that_reaches_the_share():
    distribution = Distribution(values=np.array([1.0, 2.0, 3.0]), weights=np.array([0.25, 0.5, 0.25]))

    assert [distribution.quantile(share) for share in (0.2, 0.25, 0.26, 0.75, 0.76)] == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert (distribution.mean, distribution.deviation) == (2.0, math.sqrt(0.5))


def test_basic_mirrors_percentile():
    distribution = tabulate_draws(np.array([1.0, 2.0, 3.0, 5.0, 9.0]))
    percentile, basic = percentile_interval(distribution, level=0.8), basic_interval(distribution, 3.0, level=0.8)

    assert basic.low + percentile.high == pytest.approx(6.0)
    assert basic.high + percentile.low == pytest.approx(6.0)


def test_bca_without_bias_and_acceleration_is_percentile():
    distribution = tabulate_draws(np.arange(-10.0, 11.0))
    bca, percentile = bca_interval(distribution, 0.0, 0.0), percentile_interval(distribution)

    assert (bca.low, bca.high) == pytest.approx((percentile.low, percentile.high))


def test_bca_is_not_defined_when_all_resamples_lie_on_one_side():
    distribution = tabulate_draws(np.array([1.0, 2.0, 3.0]))

    assert bias_correction(distribution, 0.0) == -math.inf
    assert bca_interval(distribution, 0.0, 0.0) is None
    assert bca_shares(0.5, 0.9) is None


@given(st.floats(-0.5, 0.5), st.floats(-0.1, 0.1), st.sampled_from([0.8, 0.95]))
def test_mirroring_the_data_mirrors_the_shares_of_bca(correction, acceleration, level):
    low, high = bca_shares(correction, acceleration, level=level)
    mirrored_low, mirrored_high = bca_shares(-correction, -acceleration, level=level)

    assert 0 < low < high < 1
    assert (mirrored_low, mirrored_high) == pytest.approx((1 - high, 1 - low), abs=1e-12)


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
