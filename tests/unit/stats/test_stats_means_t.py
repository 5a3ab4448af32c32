"""Student, Welch, trimmed and augmented t: by hand, against each other, at their edges, and invariants that always hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as oracle

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import is_constant
from pytest_crucible.stats.means.augmented import (
    augmented_t_bound,
)
from pytest_crucible.stats.means.point_mass import point_mass_interval
from pytest_crucible.stats.means.student import mean_interval, one_sample_t, paired_t, t_bound
from pytest_crucible.stats.means.trimmed import (
    one_sample_trimmed_t,
    paired_trimmed_t,
    trimmed_mean,
    yuen_welch,
)
from pytest_crucible.stats.means.two_samples import student_t, welch_t

RNG = np.random.default_rng(3)
ALTERNATIVES = ["two-sided", "greater", "less"]
TWO_ARMS = [welch_t, student_t, yuen_welch]
PAIRED = [paired_t, paired_trimmed_t]
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=5, max_size=25)
NUMBERS = st.lists(st.integers(-1000, 1000).map(lambda value: value / 8), min_size=5, max_size=25)
LEVELS = st.sampled_from([0.5, 0.9, 0.95, 0.999])
CANDIDATE, BASELINE = RNG.random(14), RNG.random(11)


@st.composite
def pairs(draw: st.DrawFn):
    x = draw(NUMBERS)
    return np.array(x), np.array(draw(st.lists(st.sampled_from([-1.0, 0.5, 3.0]), min_size=len(x), max_size=len(x))))


# -- by hand and against scipy ------------------------------------------------------------------------------------


def test_the_t_of_a_half_and_three_quarters_by_hand():
    """Mean 5/8, standard error 1/8; with one degree of freedom the tail is arctan(1/t) / pi."""
    result = one_sample_t([0.5, 0.75], mu=0.25)

    assert (result.estimate, result.se, result.statistic, result.dof, result.n) == (0.625, 0.125, 3.0, (1.0,), (2,))
    assert result.p_value == pytest.approx(2 * math.atan(1 / 3) / math.pi, rel=1e-13)
    assert (result.method, result.status) == ("one-sample t", "ok")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_all_t_tests_agree_with_scipy(alternative):
    other = CANDIDATE[::-1] + 0.1
    compared = [
        (
            one_sample_t(CANDIDATE, mu=0.4, alternative=alternative, level=0.9),
            oracle.ttest_1samp(CANDIDATE, 0.4, alternative=alternative),
        ),
        (
            paired_t(CANDIDATE, other, alternative=alternative, level=0.9),
            oracle.ttest_rel(CANDIDATE, other, alternative=alternative),
        ),
        (
            welch_t(CANDIDATE, BASELINE, alternative=alternative, level=0.9),
            oracle.ttest_ind(CANDIDATE, BASELINE, alternative=alternative, equal_var=False),
        ),
        (
            student_t(CANDIDATE, BASELINE, alternative=alternative, level=0.9),
            oracle.ttest_ind(CANDIDATE, BASELINE, alternative=alternative),
        ),
        (
            yuen_welch(CANDIDATE, BASELINE, alternative=alternative, level=0.9, trim=0.1),
            oracle.ttest_ind(CANDIDATE, BASELINE, alternative=alternative, equal_var=False, trim=0.1),
        ),
    ]

    for ours, theirs in compared:
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-11)
        assert ours.dof[0] == pytest.approx(theirs.df, rel=1e-12)
        if not ours.method.startswith("yuen"):
            expected = theirs.confidence_interval(0.9)
            assert (ours.interval.low, ours.interval.high) == pytest.approx((expected.low, expected.high), rel=1e-11)


def test_a_trimmed_mean_forgets_the_extremes():
    values = [5.0, 1.0, 1e9, 2.0, 3.0, 4.0, -1e9, 2.0, 3.0, 4.0]

    assert trimmed_mean(values, trim=0.1) == 3.0
    assert trimmed_mean(values, trim=0.09) == trimmed_mean(values, trim=0.0) == np.mean(values)
    assert one_sample_trimmed_t(values, trim=0.1).estimate == 3.0
    with pytest.raises(NotEnoughData, match="0 value"):
        trimmed_mean([])


def test_the_standard_error_of_a_trimmed_mean_by_hand():
    """1 2 3 4 100 at 20 %: winsorised 2 2 3 4 4 with variance 1, and 0.6 sqrt(5) in the denominator."""
    result = one_sample_trimmed_t([1.0, 2.0, 3.0, 4.0, 100.0], mu=2.0)

    assert result.se == pytest.approx(1 / (0.6 * math.sqrt(5)), rel=1e-14)
    assert (result.dof, result.statistic) == ((2.0,), pytest.approx(0.6 * math.sqrt(5), rel=1e-14))


# -- too few, nothing varies, wrong input -------------------------------------------------------------------------


@pytest.mark.parametrize("test", TWO_ARMS)
def test_an_arm_needs_values(test):
    with pytest.raises(NotEnoughData, match="0 and 2 value"):
        test([], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 of 2 baseline values"):
        test([1.0, 2.0], [1.0, math.nan])


def test_one_value_is_enough_for_one_arm_of_a_pooled_variance_only():
    assert student_t([3.0], [1.0, 2.0]).dof == (1.0,)
    with pytest.raises(NotEnoughData, match="at least 3 in all"):
        student_t([3.0], [1.0])
    with pytest.raises(NotEnoughData, match="1 and 2 value"):
        welch_t([3.0], [1.0, 2.0])
    with pytest.raises(NotEnoughData, match=r"1 of 3 values left"):
        yuen_welch([3.0, 2.0, 1.0], [1.0, 2.0, 4.0], trim=0.4)


@pytest.mark.parametrize("test", PAIRED)
def test_pairs_must_be_pairs(test):
    with pytest.raises(ValueError, match="3 candidate values, 2 baseline values"):
        test([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not 0 of them"):
        test([], [])
    with pytest.raises(NotEnoughData, match=r"^1 "):
        test([1.0], [2.0])


@pytest.mark.parametrize("trim", [-0.1, 0.5, math.nan])
def test_half_of_the_values_cannot_be_cut_from_each_side(trim):
    with pytest.raises(ValueError, match=r"below 0\.5"):
        trimmed_mean([1.0, 2.0, 3.0], trim=trim)


@pytest.mark.parametrize("mu", [math.nan, math.inf])
def test_a_hypothesis_is_a_number(mu):
    with pytest.raises(ValueError, match="finite number"):
        one_sample_t([1.0, 2.0], mu=mu)


@pytest.mark.parametrize(("alternative", "expected"), [("two-sided", 2.0**-5), ("greater", 2.0**-6), ("less", 1.0)])
def test_equal_differences_have_the_sign_flip_p_and_a_point_mass(alternative, expected):
    x, y = [0.5, 0.75, 0.625] * 2, [0.25, 0.5, 0.375] * 2
    result = paired_t(x, y, alternative=alternative, bounds=(0, 1))
    whole = point_mass_interval(0.25, 6, bounds=(-1, 1))

    assert (result.p_value, result.estimate, result.status) == (expected, 0.25, "degenerate")
    assert (result.statistic, result.se, result.dof) == (None, None, ())
    assert result.interval.low == (-math.inf if alternative == "less" else whole.low)
    assert result.interval.high == (math.inf if alternative == "greater" else whole.high)
    assert paired_trimmed_t(x, y, alternative=alternative).p_value == expected


def test_equal_values_are_compared_with_the_hypothesis_not_with_zero():
    assert one_sample_t([0.3] * 4, mu=0.1 + 0.2).p_value == 1.0
    assert one_sample_t([0.3] * 4, mu=0.5, alternative="less").p_value == 1 / 16
    assert one_sample_t([0.3] * 4, mu=0.5).p_value == 1 / 8
    assert one_sample_trimmed_t([0.3] * 4, mu=0.5).p_value == 1 / 8


def test_bounds_that_do_not_hold_the_values_are_refused():
    with pytest.raises(ValueError, match="2 of 2 values lie outside"):
        paired_t([-0.5, -0.5], bounds=(0, 1))
    with pytest.raises(ValueError, match="1 of 2 values lie outside"):
        augmented_t_bound([0.5, 2.0], bounds=(0, 1), alpha=0.05, side="lower")


@pytest.mark.parametrize("test", TWO_ARMS)
def test_two_constant_arms_have_the_permutation_p(test):
    different = test([1.0] * 4, [0.0] * 5)

    assert different.p_value == 2 / math.comb(9, 4)
    assert (different.status, different.statistic, different.interval, different.se) == ("degenerate", None, None, None)
    assert different.estimate == 1.0
    assert test([1.0] * 4, [0.0] * 5, alternative="greater").p_value == 1 / math.comb(9, 4)
    assert test([1.0] * 4, [0.0] * 5, alternative="less").p_value == 1.0
    assert test([0.3] * 4, [0.1 + 0.2] * 5).p_value == 1.0


def test_the_permutation_p_of_constant_arms_is_that_of_counting():
    pooled, count = [1.0] * 3 + [0.0] * 3, 0
    for chosen in itertools.combinations(range(6), 3):
        first = sum(pooled[index] for index in chosen)
        count += abs(first - (3 - first)) >= 3

    assert welch_t([1.0] * 3, [0.0] * 3).p_value == count / math.comb(6, 3)


@pytest.mark.parametrize("noise", [0.0, 1e-17])
def test_one_constant_arm_is_fine(noise):
    constant = [0.4, 0.4 + noise, 0.4, 0.4]
    result = welch_t([0.5, 0.7, 0.9, 0.6], constant)
    one = one_sample_t([0.5, 0.7, 0.9, 0.6], mu=0.4)

    assert (result.dof, result.status) == ((3.0,), "ok")
    assert result.p_value == pytest.approx(one.p_value, rel=1e-12)


def test_values_that_vary_in_the_tails_only_have_no_trimmed_standard_error():
    tails = [0.0, *[0.5] * 8, 1.0]
    alone, arms = one_sample_trimmed_t(tails, mu=0.4), yuen_welch(tails, [0.3] * 10)

    assert (alone.status, alone.p_value, alone.estimate) == ("degenerate", None, 0.5)
    assert (arms.status, arms.p_value) == ("degenerate", None)
    assert arms.estimate == pytest.approx(0.2)


def test_a_small_p_keeps_its_digits():
    result = welch_t(CANDIDATE + 1e6, BASELINE)

    assert 0 < result.p_value < 1e-80


def test_differences_whose_squares_are_zero_have_an_error():
    assert paired_t([1e-170, 2e-170, 3e-170]).p_value == pytest.approx(paired_t([1.0, 2.0, 3.0]).p_value, rel=1e-12)


# -- invariants ---------------------------------------------------------------------------------------------------------


@given(NUMBERS, NUMBERS, LEVELS)
def test_two_arms_swapped_flip_the_sign_and_keep_p(x, y, level):
    for test in TWO_ARMS:
        one, other = test(x, y, level=level), test(y, x, level=level)

        assert one.estimate == pytest.approx(-other.estimate, rel=1e-12, abs=1e-12)
        assert one.p_value == (None if other.p_value is None else pytest.approx(other.p_value, rel=1e-9))
        if one.interval:
            assert one.interval.low == pytest.approx(-other.interval.high, rel=1e-9, abs=1e-9)


@given(pairs(), LEVELS)
def test_pairs_swapped_flip_the_sign_and_keep_p(arms, level):
    for test in PAIRED:
        one, other = test(*arms, level=level), test(*arms[::-1], level=level)

        assert one.estimate == pytest.approx(-other.estimate, rel=1e-12, abs=1e-12)
        assert one.p_value == (None if other.p_value is None else pytest.approx(other.p_value, rel=1e-9))


@given(NUMBERS, LEVELS, st.sampled_from(ALTERNATIVES), st.sampled_from([0.0, 1.5, -30.0]))
def test_an_interval_holds_its_estimate_and_excludes_what_its_test_rejects(x, level, alternative, mu):
    for result in (
        one_sample_t(x, mu=mu, level=level, alternative=alternative),
        one_sample_trimmed_t(x, mu=mu, level=level, alternative=alternative),
    ):
        assume(result.statistic is not None and abs(result.p_value - (1 - level)) > 1e-9)
        interval = result.interval

        assert interval.low <= result.estimate <= interval.high
        assert interval.low < interval.high
        assert 0 <= result.p_value <= 1
        assert (not interval.low <= mu <= interval.high) == (result.p_value < 1 - level)


@given(NUMBERS, NUMBERS, LEVELS, st.sampled_from(ALTERNATIVES))
def test_two_arm_intervals_exclude_zero_when_p_is_small(x, y, level, alternative):
    for test in TWO_ARMS:
        result = test(x, y, level=level, alternative=alternative)
        if result.interval is None or abs(result.p_value - (1 - level)) < 1e-9:
            continue

        assert result.interval.low <= result.estimate <= result.interval.high
        assert (not result.interval.low <= 0 <= result.interval.high) == (result.p_value < 1 - level)


@given(NUMBERS, NUMBERS, st.randoms(use_true_random=False))
def test_the_order_of_values_and_a_common_shift_change_nothing(x, y, random):
    shuffled = random.sample(x, len(x))
    for test in TWO_ARMS:
        one, moved = test(x, y), test(np.add(shuffled, 64), np.add(y, 64))

        assert (one.status, one.p_value is None) == (moved.status, moved.p_value is None)
        assert one.estimate == pytest.approx(moved.estimate, abs=1e-9)
        assert one.p_value is None or one.p_value == pytest.approx(moved.p_value, rel=1e-6, abs=1e-12)


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_pairs_changes_nothing(arms, random):
    order = random.sample(range(arms[0].size), arms[0].size)
    for test in PAIRED:
        one, other = test(*arms), test(arms[0][order], arms[1][order])

        assert one.estimate == pytest.approx(other.estimate, rel=1e-12, abs=1e-12)
        assert one.p_value == (None if other.p_value is None else pytest.approx(other.p_value, rel=1e-9))


@given(NUMBERS)
def test_one_sided_p_values_add_up_to_one(x):
    assume(not is_constant(np.array(x)))
    p = {alternative: one_sample_t(x, alternative=alternative).p_value for alternative in ALTERNATIVES}

    assert p["greater"] + p["less"] == pytest.approx(1)
    assert p["two-sided"] == pytest.approx(2 * min(p["greater"], p["less"]))


@given(NUMBERS, NUMBERS)
def test_without_trimming_a_trimmed_t_is_the_t(x, y):
    one, other = yuen_welch(x, y, trim=0.0), welch_t(x, y)
    single, plain = one_sample_trimmed_t(x, trim=0.0), one_sample_t(x)

    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert single.p_value == pytest.approx(plain.p_value, rel=1e-9)
    assert single.estimate == pytest.approx(plain.estimate)


@given(NUMBERS, NUMBERS)
def test_with_equal_sizes_welch_and_student_have_one_statistic(x, y):
    size = min(len(x), len(y))
    one, other = welch_t(x[:size], y[:size]), student_t(x[:size], y[:size])
    assume(one.statistic is not None)

    assert one.statistic == pytest.approx(other.statistic, rel=1e-9)
    assert size - 1 - 1e-9 <= one.dof[0] <= other.dof[0] + 1e-9


def test_with_many_values_the_augmented_bound_becomes_the_plain_one():
    """Two pseudo-observations among 100 000 move the ends by a few parts in 100 000."""
    x = RNG.beta(5, 2, 100_000)

    assert augmented_t_bound(x, bounds=(0, 1), alpha=0.05, side="lower") == pytest.approx(
        t_bound(x, alpha=0.05, side="lower"), abs=3e-5
    )


@given(SCORES.filter(lambda values: len(set(values)) > 1), LEVELS)
def test_interval_bound_and_test_of_one_mean_are_one(values, level):
    interval, result = mean_interval(values, level=level), paired_t(values, level=level)

    assert result.interval == interval
    assert t_bound(values, alpha=(1 - level) / 2, side="lower") == pytest.approx(interval.low, rel=1e-12, abs=1e-12)
    assert t_bound(values, alpha=(1 - level) / 2, side="upper") == pytest.approx(interval.high, rel=1e-12, abs=1e-12)
