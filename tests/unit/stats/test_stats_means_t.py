"""Student, Welch, trimmed and augmented t: by hand, against each other, at their edges, and invariants that always hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.t_tests import mean_interval, one_sample_t, paired_t, student_t, t_bound, welch_t

RNG = np.random.default_rng(3)
ALTERNATIVES = ["two-sided", "greater", "less"]
TWO_ARMS = [welch_t, student_t]


SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=5, max_size=25)
NUMBERS = st.lists(st.integers(-1000, 1000).map(lambda value: value / 8), min_size=5, max_size=25)
LEVELS = st.sampled_from([0.5, 0.9, 0.95, 0.999])
CANDIDATE, BASELINE = RNG.random(14), RNG.random(11)


# -- too few, nothing varies, wrong input -------------------------------------------------------------------------


@pytest.mark.parametrize("test", TWO_ARMS)
def test_an_arm_needs_values(test):
    with pytest.raises(NotEnoughData, match="0 and 2 value"):
        test([], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 of 2 baseline values"):
        test([1.0, 2.0], [1.0, math.nan])


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="3 candidate values, 2 baseline values"):
        paired_t([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not 0 of them"):
        paired_t([], [])
    with pytest.raises(NotEnoughData, match=r"^1 "):
        paired_t([1.0], [2.0])


@pytest.mark.parametrize("mu", [math.nan, math.inf])
def test_a_hypothesis_is_a_number(mu):
    with pytest.raises(ValueError, match="finite number"):
        one_sample_t([1.0, 2.0], mu=mu)


@pytest.mark.parametrize("test", TWO_ARMS)
def test_two_constant_arms_have_the_permutation_p(test):
    different = test([1.0] * 4, [0.0] * 5)

    assert different.p_value == 2 / math.comb(9, 4)
    assert (different.status, different.statistic, different.interval, different.se) == ("degenerate", None, None, None)
    assert different.estimate == 1.0
    assert test([1.0] * 4, [0.0] * 5, alternative="greater").p_value == 1 / math.comb(9, 4)
    assert test([1.0] * 4, [0.0] * 5, alternative="less").p_value == 1.0
    assert test([0.3] * 4, [0.1 + 0.2] * 5).p_value == 1.0


@pytest.mark.parametrize("noise", [0.0, 1e-17])
def test_one_constant_arm_is_fine(noise):
    constant = [0.4, 0.4 + noise, 0.4, 0.4]
    result = welch_t([0.5, 0.7, 0.9, 0.6], constant)
    single = one_sample_t([0.5, 0.7, 0.9, 0.6], mu=0.4)

    assert (result.dof, result.status) == ((3.0,), "ok")
    assert result.p_value == pytest.approx(single.p_value, rel=1e-12)


def test_a_small_p_keeps_its_digits():
    result = welch_t(CANDIDATE + 1e6, BASELINE)

    assert 0 < result.p_value < 1e-80


def test_differences_whose_squares_are_zero_have_an_error():
    assert paired_t([1e-170, 2e-170, 3e-170]).p_value == pytest.approx(paired_t([1.0, 2.0, 3.0]).p_value, rel=1e-12)


# -- invariants ---------------------------------------------------------------------------------------------------------


@given(NUMBERS, NUMBERS, LEVELS, st.sampled_from(ALTERNATIVES))
def test_two_arm_intervals_exclude_zero_when_p_is_small(x, y, level, alternative):
    for test in TWO_ARMS:
        result = test(x, y, level=level, alternative=alternative)
        if result.interval is None or abs(result.p_value - (1 - level)) < 1e-9:
            continue

        assert result.interval.low <= result.estimate <= result.interval.high
        assert (not result.interval.low <= 0 <= result.interval.high) == (result.p_value < 1 - level)


@given(SCORES.filter(lambda values: len(set(values)) > 1), LEVELS)
def test_interval_bound_and_test_of_one_mean_are_one(values, level):
    interval, result = mean_interval(values, level=level), paired_t(values, level=level)

    assert result.interval == interval
    assert t_bound(values, alpha=(1 - level) / 2, side="lower") == pytest.approx(interval.low, rel=1e-12, abs=1e-12)
    assert t_bound(values, alpha=(1 - level) / 2, side="upper") == pytest.approx(interval.high, rel=1e-12, abs=1e-12)
