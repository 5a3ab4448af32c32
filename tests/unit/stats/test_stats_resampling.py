"""Grids of scores, random signs, and the bootstrap."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from pytest_crucible.stats.classical import bootstrap
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling.alikeness import flip_signs
from pytest_crucible.stats.resampling.draws import draw_sums, generator, hash_ids
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


def test_groups_of_unequal_sizes_are_flipped_whole():
    """All 2^6 arrangements are counted, with the statistic's definition."""
    differences, labels = np.random.default_rng(2).normal(0.4, 1, 15), np.repeat(np.arange(6), [8, 2, 1, 2, 1, 1])
    totals, sizes = np.bincount(labels, differences), np.bincount(labels)

    def statistic(signs) -> float:
        flipped = np.array(signs) * totals
        residual = flipped - flipped.sum() / sizes.sum() * sizes
        return abs(flipped.sum()) / math.sqrt(residual @ residual + flipped.sum() ** 2 / 6)

    every = np.array([statistic(signs) for signs in itertools.product((1, -1), repeat=6)])
    result = flip_signs(differences, clusters=labels)

    assert (result.units, result.exact) == (6, True)
    assert result.p_value == pytest.approx(np.mean(every >= every[0] - 1e-9))


# -- the bootstrap is that of scipy, with its seed, and without an interval where bca has none --------------------


NORMAL = np.random.default_rng(11).normal(2.0, 1.0, 80)


@pytest.mark.parametrize("method", ["bca", "percentile", "basic"])
def test_the_bootstrap_of_a_deviation_is_that_of_scipy(method):
    result = bootstrap(NORMAL, np.std, method=method, resamples=500, rng=3)
    reference = scipy.stats.bootstrap(
        (NORMAL,), np.std, n_resamples=500, method=method, random_state=np.random.default_rng(3)
    )

    assert result.estimate == np.std(NORMAL)
    assert (result.interval.low, result.interval.high) == tuple(reference.confidence_interval)
    assert (result.se, result.seed, result.n) == (reference.standard_error, 3, 80)
    assert f"n=80 (bootstrap {method}, 500 resamples)" in str(result)


def test_bca_needs_a_jackknife_that_varies():
    """The median of mostly equal values does not move when one is left out."""
    values = [1.0] * 9 + [2.0, 3.0, 4.0]

    assert bootstrap(values, np.median).interval is None
    assert bootstrap(values, np.median, method="percentile").interval is not None


def test_a_bootstrap_needs_two_finite_values():
    with pytest.raises(NotEnoughData, match=r"^1 value"):
        bootstrap([1.0], np.mean)
    with pytest.raises(ValueError, match="1 of 3 values are NaN"):
        bootstrap([1.0, 2.0, np.nan], np.mean)


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(1)

    assert generator(rng) == (rng, None)
    assert bootstrap(NORMAL, np.mean, resamples=100, rng=rng).seed is None


@pytest.mark.parametrize("ids", [["q1", "q2", "q3"], ["ä1", "q2", "q3"], ["", "", ""], ["q\0", "\0q", "qq"]])
def test_the_key_of_an_id_does_not_depend_on_those_beside_it(ids):
    alone = [hash_ids([name])[0] for name in ids]

    assert hash_ids(ids).tolist() == alone
    for others in (["longer"], ["日本語"], ["a", "several more", "b" * len(ids[0])]):
        assert hash_ids([*ids, *others])[:3].tolist() == alone
