"""Standardised differences and the noncentral t intervals around them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible.stats.effects import (
    cohens_d,
    cohens_dav,
    cohens_dz,
    glass_delta,
    hedges_correction,
    hedges_g,
    noncentral_t_limits,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.t_tests import paired_t

SCORES = st.lists(st.integers(-100, 100).map(lambda cell: cell / 10), min_size=2, max_size=12)
PAIRS = st.lists(st.tuples(*[st.integers(-50, 50).map(lambda cell: cell / 10)] * 2), min_size=3, max_size=12)
INDEPENDENT = [cohens_d, hedges_g, glass_delta]
PAIRED = [cohens_dz, cohens_dav]
RNG = np.random.default_rng(31)
X, Y = RNG.normal(0.6, 1.0, 14), RNG.normal(0.0, 1.3, 17)


# -- the noncentral t ---------------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.integers(1, 100_000))
def test_limits_are_finite_ordered_and_mirrored(t, dof):
    low, high = noncentral_t_limits(t, dof)

    assert -math.inf < low < high < math.inf
    assert noncentral_t_limits(-t, dof) == (-high, -low)


def test_without_an_effect_the_limits_are_those_of_the_normal():
    assert noncentral_t_limits(0.0, 8) == pytest.approx((-1.959963984540054, 1.959963984540054), abs=1e-12)


@pytest.mark.parametrize(("t", "dof", "level"), [(math.inf, 5, 0.95), (1.0, 0.5, 0.95), (1.0, 5, 1.0)])
def test_wrong_input_of_the_limits_is_refused(t, dof, level):
    with pytest.raises(ValueError, match=r"must"):
        noncentral_t_limits(t, dof, level=level)


# -- values by hand -----------------------------------------------------------------------------------------------


def test_the_correction_nears_its_approximation_and_one():
    assert hedges_correction(1) == 0.0
    assert hedges_correction(50) == pytest.approx(1 - 3 / (4 * 50 - 1), abs=2e-5)
    assert hedges_correction(1e6) == pytest.approx(1 - 0.75e-6, abs=1e-11)
    with pytest.raises(ValueError, match="not 0"):
        hedges_correction(0)


# -- laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", INDEPENDENT)
@given(x=SCORES, y=SCORES, level=st.sampled_from([0.8, 0.95]))
def test_intervals_of_independent_arms_are_ordered_and_contain_the_value(effect, x, y, level):
    result = effect(x, y, level=level)
    assume(result.value is not None)

    assert result.interval.low < result.interval.high
    assert result.interval.level == level
    if len(x) + len(y) > 6 and effect is not glass_delta:
        assert result.interval.low < result.value < result.interval.high


@pytest.mark.parametrize("effect", [cohens_d, hedges_g])
@given(x=SCORES, y=SCORES)
def test_swapping_the_arms_flips_the_sign(effect, x, y):
    single, other = effect(x, y), effect(y, x)
    assume(single.value is not None)

    assert other.value == pytest.approx(-single.value, rel=1e-12)
    assert (other.interval.low, other.interval.high) == pytest.approx(
        (-single.interval.high, -single.interval.low), rel=1e-9
    )


@pytest.mark.parametrize("effect", PAIRED)
@given(pairs=PAIRS)
def test_a_paired_interval_excludes_zero_exactly_when_the_t_test_rejects(effect, pairs):
    x, y = np.array(pairs).T
    result = effect(x, y)
    assume(result.interval is not None)
    p_value = paired_t(x - y).p_value
    assume(abs(p_value - 0.05) > 1e-9)

    assert (result.interval.low > 0 or result.interval.high < 0) == (p_value < 0.05)


@pytest.mark.parametrize("effect", INDEPENDENT + PAIRED)
def test_units_and_origin_do_not_matter(effect):
    x, y = X, Y[:14]
    single = effect(x, y)
    for moved in (effect(1e-160 * x, 1e-160 * y), effect(100 * x + 7, 100 * y + 7)):
        assert moved.value == pytest.approx(single.value, rel=1e-9)
        assert (moved.interval.low, moved.interval.high) == pytest.approx(
            (single.interval.low, single.interval.high), rel=1e-9
        )


def test_the_interval_of_dav_covers():
    """Nominal 95 % at correlation .7 and n=12, in 400 data sets."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        shared = rng.normal(size=12)
        x, y = (0.7**0.5 * shared + 0.3**0.5 * rng.normal(size=12) for _ in range(2))
        interval = cohens_dav(x + 0.5, y).interval
        covered += interval.low <= 0.5 <= interval.high

    assert covered >= 368  # 92 %: three standard errors below 95 %


# -- edges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", INDEPENDENT)
@pytest.mark.parametrize("y", [[0.0] * 5, [1.0] * 5])
def test_arms_without_variation_have_no_effect_size(effect, y):
    result = effect([1.0] * 4, y)

    assert (result.value, result.interval) == (None, None)
    assert "not defined" in result.note


def test_one_arm_without_variation_is_enough_for_d_but_not_for_delta():
    assert cohens_d([1.0] * 4, [0.1, 0.3, 0.2]).value is not None
    assert glass_delta([1.0] * 4, [0.1, 0.3, 0.2]).value == pytest.approx(8.0)
    assert glass_delta([0.1, 0.3, 0.2], [1.0] * 4).value is None


def test_equal_differences_have_a_dav_without_interval():
    result = cohens_dav([0.3, 0.2, 0.4], [0.2, 0.1, 0.3])

    assert result.value == pytest.approx(1.0)
    assert result.interval is None
    assert result.note


@pytest.mark.parametrize(
    ("effect", "x", "y"),
    [
        (cohens_d, [], [1.0, 2.0, 3.0]),
        (cohens_d, [1.0], [2.0]),
        (hedges_g, [1.0], []),
        (glass_delta, [1.0, 2.0], [1.0]),
        (glass_delta, [], [1.0, 2.0]),
        (cohens_dz, [1.0], [2.0]),
        (cohens_dav, [], []),
    ],
)
def test_too_few_values_are_refused(effect, x, y):
    with pytest.raises(NotEnoughData, match=r"\d"):
        effect(x, y)


@pytest.mark.parametrize("effect", INDEPENDENT + PAIRED)
def test_missing_values_are_counted(effect):
    with pytest.raises(ValueError, match="1 of 3"):
        effect([0.1, math.nan, 0.2], [0.3, 0.1, 0.5])
