"""Differences of two ratios of means: bounds, p-values and swaps of the arms, against closed forms and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.measures.conditional import Pairing, compare
from pytest_crucible.stats import gaffke_bound
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.gaffke import gaffke_ratio_bound
from pytest_crucible.stats.means.ratio_bounds import RatioArm, ratio_difference_bound, ratio_difference_p_value
from pytest_crucible.stats.resampling.alikeness import flip_signs, swap_arms

UNIT = (0.0, 1.0)
SIDES = ("lower", "upper")


def arm(values, applies=None) -> RatioArm:
    """One value a sample; those of samples that the metric does not apply to are left out."""
    sizes = np.ones(len(values)) if applies is None else np.asarray(applies, dtype=float)
    return RatioArm(np.asarray(values, dtype=float) * sizes, sizes)


def drawn(seed: int, n: int = 60) -> tuple[RatioArm, RatioArm]:
    rng = np.random.default_rng(seed)
    ours, theirs = rng.random((2, n)) < 0.6
    return arm(rng.random(n), ours), arm(rng.random(n) ** 2, theirs)


def test_where_the_metric_applies_everywhere_it_is_gaffkes_bound_of_the_pairs():
    """The nuisance cancels, and takes a twentieth of alpha."""
    rng = np.random.default_rng(1)
    ours, theirs = rng.random((2, 40))

    for side, end in zip(SIDES, (-1.0, 1.0), strict=True):
        bound = ratio_difference_bound(arm(ours), arm(theirs), bounds=UNIT, alpha=0.05, side=side)
        assert bound == pytest.approx(gaffke_bound(ours - theirs, end=end, alpha=0.0475, side=side), abs=1e-6)


def test_a_ratio_of_single_values_has_gaffkes_bound_of_these():
    values, applies = np.random.default_rng(3).random(50), np.arange(50) % 3 > 0

    bound = gaffke_ratio_bound(values * applies, applies.astype(float), end=0.0, alpha=0.05, side="lower")
    assert bound == pytest.approx(gaffke_bound(values[applies], end=0.0, alpha=0.05, side="lower"), abs=1e-8)


def test_many_samples_have_the_bound_of_the_linearised_difference():
    """R: survey::svyratio of both arms; the residuals of a sample are subtracted (Cochran 1977, 6.13)."""
    rng = np.random.default_rng(4)
    n = 40_000
    ours, theirs = rng.random(n) < 0.5, rng.random(n) < 0.3
    first, second = arm(rng.random(n) < 0.8, ours), arm(rng.random(n) < 0.7, theirs)
    residuals = (first.totals - first.ratio * first.sizes) / ours.mean()
    residuals -= (second.totals - second.ratio * second.sizes) / theirs.mean()
    reach = 1.6449 * residuals.std() / math.sqrt(n)

    value = first.ratio - second.ratio
    lower, upper = (ratio_difference_bound(first, second, bounds=UNIT, alpha=0.05, side=side) for side in SIDES)
    assert (value - lower) / reach == pytest.approx(1.0, abs=0.05)
    assert (upper - value) / reach == pytest.approx(1.0, abs=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(SIDES), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_p_value_of_the_bound_is_its_alpha(seed, side, alpha):
    pair = drawn(seed)
    bound = ratio_difference_bound(*pair, bounds=UNIT, alpha=alpha, side=side)

    assert ratio_difference_p_value(*pair, null=bound, bounds=UNIT, side=side) == pytest.approx(alpha, rel=0.01)


def test_an_arm_with_one_value_has_no_bounds():
    few = arm([1, 0, 0, 0], [1, 0, 0, 0])
    with pytest.raises(NotEnoughData, match="1 unit with values in an arm"):
        ratio_difference_bound(few, arm([1, 0, 1, 0]), bounds=UNIT, alpha=0.05, side="lower")


# -- swaps ----------------------------------------------------------------------------------------------------------


def test_where_the_metric_applies_everywhere_swaps_are_sign_flips():
    ours, theirs = np.random.default_rng(5).random((2, 12))

    assert swap_arms(arm(ours), arm(theirs)).p_value == flip_signs(ours - theirs).p_value


def test_all_swaps_are_counted_where_they_are_few():
    first, second = drawn(6, n=9)
    pairs = np.stack((np.stack((first.totals, second.totals)), np.stack((first.sizes, second.sizes))))

    def statistic(swaps) -> float:
        flipped = np.where(np.array(swaps, dtype=bool), pairs[:, ::-1], pairs)
        totals, sizes = flipped
        ratios = totals.sum(axis=1) / sizes.sum(axis=1)
        residuals = (totals - ratios[:, None] * sizes) / sizes.sum(axis=1)[:, None]
        return abs(ratios[0] - ratios[1]) / math.sqrt(((residuals[0] - residuals[1]) ** 2).sum())

    observed = statistic([0] * 9)
    every = [statistic(swaps) for swaps in itertools.product((0, 1), repeat=9)]
    assert swap_arms(first, second).p_value == pytest.approx(np.mean(np.array(every) >= observed - 1e-6))


def test_the_seed_decides_the_draws_and_blocks_keep_the_power():
    rng = np.random.default_rng(7)
    n = 5_000
    first, second = arm(rng.random(n) < 0.9, rng.random(n) < 0.5), arm(rng.random(n) < 0.8, rng.random(n) < 0.5)

    result, again = (swap_arms(first, second) for _ in range(2))
    assert (result.units, result.p_value) == (2_000, again.p_value)
    assert result.p_value < 0.001


def test_a_difference_without_bounds_of_its_values_has_a_p_value_alone():
    first, second = drawn(8)
    pair = Pairing(first=first, second=second, bounds=(-math.inf, math.inf), samples=60, clusters=None)

    difference = compare(pair, 0.05)
    assert difference.alikeness is not None
    assert difference.p_value == difference.alikeness.p_value
    assert (difference.interval, difference.lower, difference.proof_p) == (None, None, None)
