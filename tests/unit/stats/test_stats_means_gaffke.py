"""Gaffke's bound of a mean and of a contrast: the laws that define it, and the exact bounds that it equals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.special import bdtrc

from pytest_crucible.stats import clopper_pearson_bound, gaffke_bound
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums, melded_bound, ratio_lower_bound
from pytest_crucible.stats.means.gaffke import gaffke_p_value

SCORES = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=40)
ALPHAS = st.sampled_from([0.2, 0.05, 0.01, 0.0005])
SIDES = st.sampled_from(["lower", "upper"])


@pytest.mark.parametrize("n", [2, 5, 20, 200])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_of_zeros_and_ones_it_is_the_bound_of_clopper_and_pearson(n, alpha):
    for ones in sorted({1, n // 2, n - 1, n}):
        bits = np.arange(n) < ones
        for side, end in (("lower", 0.0), ("upper", 1.0)):
            exact = clopper_pearson_bound(ones, n, alpha=alpha, side=side)
            bound = gaffke_bound(bits.astype(float), end=end, alpha=alpha, side=side)

            assert bound == pytest.approx(exact, rel=0.04, abs=2e-3 / n)
            # The approximation errs on the cautious side.
            assert bound <= exact + 1e-9 if side == "lower" else bound >= exact - 1e-9


@pytest.mark.parametrize(("gained", "lost", "same"), [(9, 2, 30), (1, 0, 1), (40, 20, 0), (6, 0, 500)])
def test_of_differences_of_zeros_and_ones_it_is_the_sign_test(gained, lost, same):
    differences = [1.0] * gained + [-1.0] * lost + [0.0] * same
    exact = float(bdtrc(gained - 1, gained + lost, 0.5))

    p_value = gaffke_p_value(differences, null=0.0, end=-1.0, side="lower")

    assert exact <= p_value <= 1.05 * exact


def test_the_tail_is_that_of_random_weights():
    rng = np.random.default_rng(1)
    values = rng.lognormal(0, 1, 20)
    weights = rng.exponential(size=(200_000, 21))
    means = weights @ np.append(values, 0.0) / weights.sum(axis=1)
    for null in np.quantile(means, [0.003, 0.05, 0.4, 0.9]):
        drawn = float(np.mean(means <= null))

        assert gaffke_p_value(values, null=null, end=0.0, side="lower") == pytest.approx(drawn, rel=0.08)


@given(SCORES, ALPHAS, SIDES)
@settings(max_examples=choose_examples(150))
def test_the_bound_is_where_the_p_value_is_alpha(values, alpha, side):
    end = 0.0 if side == "lower" else 1.0
    bound = gaffke_bound(values, end=end, alpha=alpha, side=side)

    assert 0 <= bound <= 1
    if abs(bound - end) > 1e-6 and np.ptp(values) > 1e-6:
        assert gaffke_p_value(values, null=bound, end=end, side=side) == pytest.approx(alpha, rel=1e-3)


@given(SCORES, ALPHAS, st.sampled_from([-3.0, 0.0, 100.0]), st.sampled_from([1e-6, 1.0, 1e6]))
@settings(max_examples=choose_examples(100))
def test_it_moves_and_scales_with_the_values(values, alpha, shift, unit):
    plain = gaffke_bound(values, end=0.0, alpha=alpha, side="lower")
    moved = gaffke_bound(unit * (np.array(values) + shift), end=unit * shift, alpha=alpha, side="lower")
    mirrored = gaffke_bound(-np.array(values), end=0.0, alpha=alpha, side="upper")

    assert moved == pytest.approx(unit * (plain + shift), abs=1e-7 * unit * (1 + abs(shift)))
    assert mirrored == -plain


def test_clusters_of_one_are_independent_values_and_whole_ones_weigh_as_one():
    values = np.random.default_rng(2).random(30)
    alone = {"end": 0.0, "alpha": 0.05, "side": "lower"}

    assert gaffke_bound(values, **alone, clusters=range(30)) == gaffke_bound(values, **alone)
    assert gaffke_bound(np.repeat(values, 5), **alone, clusters=np.repeat(range(30), 5)) == pytest.approx(
        gaffke_bound(values, **alone)
    )


def test_times_counts_every_value_that_often():
    values = np.random.default_rng(3).random(12)
    once = gaffke_p_value(np.tile(values, 7), null=0.1, end=-1.0, side="lower")

    for times in (7.0, np.full(12, 7.0)):
        assert gaffke_p_value(values, null=0.1, end=-1.0, side="lower", times=times) == pytest.approx(once)


def test_values_at_their_end_alone_show_nothing():
    assert gaffke_bound([0.0] * 50, end=0.0, alpha=0.05, side="lower") == 0.0
    assert gaffke_p_value([0.0] * 50, null=0.1, end=0.0, side="lower") == 1.0
    assert gaffke_p_value([0.5] * 50, null=-0.1, end=0.0, side="lower") < 1e-300


def test_refusals():
    with pytest.raises(NotEnoughData, match="at least 2"):
        gaffke_bound([0.5], end=0.0, alpha=0.05, side="lower")
    with pytest.raises(NotEnoughData, match="at least 5"):
        gaffke_bound([0.5] * 8, end=0.0, alpha=0.05, side="lower", clusters=[1, 2] * 4)
    for end in (-math.inf, math.nan, 0.6):
        with pytest.raises(ValueError, match="end"):
            gaffke_bound([0.5, 0.7], end=end, alpha=0.05, side="lower")
    with pytest.raises(ValueError, match="alpha"):
        gaffke_bound([0.5, 0.7], end=0.0, alpha=1.0, side="lower")
    with pytest.raises(ValueError, match="side"):
        gaffke_p_value([0.5, 0.7], null=0.0, end=0.0, side="both")


# -- gaffke's bound of a contrast of means ------------------------------------------------------------------------


TWENTIETHS = st.lists(st.integers(0, 20).map(lambda score: score / 20), min_size=2, max_size=30)
RNG = np.random.default_rng(1)
FIRST, SECOND = RNG.random(30), RNG.random(30)


def units(values) -> UnitSums:
    array = np.asarray(values, dtype=float)
    return UnitSums(array, np.ones_like(array))


def difference(first, second, *, shares_units=False) -> MeanContrast:
    return MeanContrast((units(first), units(second)), (1.0, -1.0), (0.0, 1.0), shares_units)


def test_of_one_mean_it_is_gaffkes_bound():
    bound = MeanContrast((units(FIRST),), (1.0,), (0.0, 1.0), shares_units=True).lower_bound(0.05)

    assert bound == pytest.approx(gaffke_bound(FIRST, end=0.0, alpha=0.05, side="lower"), abs=1e-7)


def test_of_matched_values_it_is_gaffkes_bound_of_their_differences():
    bound = difference(FIRST, SECOND, shares_units=True).lower_bound(0.05)

    assert bound == pytest.approx(gaffke_bound(FIRST - SECOND, end=-1.0, alpha=0.05, side="lower"), abs=1e-7)


def test_of_independent_means_it_is_hardly_wider_than_the_melded_bound():
    bound = difference(FIRST, SECOND).lower_bound(0.05)

    melded = melded_bound(FIRST, SECOND, bounds=(0.0, 1.0), alpha=0.05, side="lower")
    assert melded - 0.01 <= bound <= melded + 1e-6


@given(TWENTIETHS, TWENTIETHS)
def test_a_limit_is_excluded_exactly_where_its_p_value_is_small(first, second):
    contrast = difference(first, second)

    bound = contrast.lower_bound(0.05)

    assert contrast.lowest <= bound <= contrast.estimate + 1e-12
    assert contrast.p_value(bound - 1e-4) <= 0.0501
    assert bound == contrast.estimate or contrast.p_value(bound + 1e-4) > 0.0499


@given(TWENTIETHS, TWENTIETHS, st.floats(0.001, 0.2))
def test_a_smaller_alpha_never_helps(first, second, alpha):
    contrast = difference(first, second)

    assert contrast.lower_bound(alpha / 2) <= contrast.lower_bound(alpha) + 1e-6


@given(TWENTIETHS, TWENTIETHS)
def test_the_ratio_bound_excludes_1_where_the_difference_excludes_0(first, second):
    ratio = ratio_lower_bound(units(first), units(second), bounds=(0.0, 1.0), shares_units=False, alpha=0.05)

    bound = difference(first, second).lower_bound(0.05)
    assert abs(bound) < 1e-4 or (ratio > 1) == (bound > 0)
