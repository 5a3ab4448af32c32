"""Equivalence, non-inferiority and ratios: tests against margins agree with their intervals, always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as oracle

from pytest_crucible.stats.counts.ratios import (
    geometric_mean_ratio_paired,
    geometric_mean_ratio_welch,
    ratio_of_totals,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.gaffke import gaffke_bound
from pytest_crucible.stats.means.melded import melded_bound
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.planning.equivalence import (
    tost_one_sample,
    tost_paired,
    tost_paired_proportions,
    tost_proportions,
    tost_welch,
)
from pytest_crucible.stats.planning.noninferiority import (
    noninferiority_paired,
    noninferiority_paired_proportions,
    noninferiority_proportions,
    noninferiority_welch,
)

RNG = np.random.default_rng(13)
X, Y = RNG.random(20), RNG.random(20)
SCORES = st.lists(st.integers(0, 16).map(lambda value: value / 16), min_size=3, max_size=25)
MARGINS = st.tuples(st.integers(-90, 85), st.integers(5, 15)).map(lambda pair: (pair[0] / 100, sum(pair) / 100))
ALPHAS = st.sampled_from([0.01, 0.05, 0.2])
LATENCIES = st.lists(st.integers(1, 4000).map(float), min_size=3, max_size=20)


@st.composite
def pairs(draw: st.DrawFn):
    x = draw(SCORES)
    n = len(x)
    return np.array(x), np.array(draw(st.lists(st.integers(0, 16).map(lambda v: v / 16), min_size=n, max_size=n)))


@st.composite
def counts(draw: st.DrawFn):
    n = draw(st.integers(1, 300))
    gained = draw(st.integers(0, n))
    return gained, draw(st.integers(0, n - gained)), n


def agrees(result, low, high, alpha):
    """The interval lies between the margins exactly when both one-sided tests reject; ties by rounding aside."""
    if result.p_value is None or abs(result.p_value - alpha) < 1e-9:
        return True
    inside = result.interval.low > low and result.interval.high < high
    return inside == result.equivalent == (result.p_low < alpha and result.p_high < alpha)


# -- equivalence --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(pairs(), MARGINS, ALPHAS, st.booleans())
def test_equivalence_of_means_agrees_with_its_interval(arms, margins, alpha, bounded):
    bounds = (0.0, 1.0) if bounded else None
    options = {"low": margins[0], "high": margins[1], "alpha": alpha, "bounds": bounds}
    for result in (tost_paired(*arms, **options), tost_welch(*arms, **options), tost_one_sample(arms[0], **options)):
        assert agrees(result, *margins, alpha)
        assert result.p_value is None or result.p_value == max(result.p_low, result.p_high)
        assert result.interval is None or result.interval.level == 1 - 2 * alpha
        assert (result.status == "degenerate") == (result.p_value is None)
        assert not (bounded and result.p_value is None)


@given(counts(), counts(), MARGINS, ALPHAS)
def test_equivalence_of_proportions_agrees_with_its_interval(first, second, margins, alpha):
    low, high = margins
    paired = tost_paired_proportions(*first, low=low, high=high, alpha=alpha)
    apart = tost_proportions(first[0], first[2], second[0], second[2], low=low, high=high, alpha=alpha)

    assert agrees(paired, low, high, alpha)
    assert agrees(apart, low, high, alpha)


@given(pairs(), MARGINS)
def test_swapping_the_arms_mirrors_the_margins(arms, margins):
    for test in (tost_paired, tost_welch):
        one = test(*arms, low=margins[0], high=margins[1])
        other = test(*arms[::-1], low=-margins[1], high=-margins[0])

        assert (one.p_value is None) == (other.p_value is None)
        assert one.p_value is None or one.p_value == pytest.approx(other.p_value, rel=1e-9)
        assert one.estimate == pytest.approx(-other.estimate, abs=1e-12)


def test_the_two_tests_are_those_of_scipy():
    result = tost_welch(X, Y, low=-0.2, high=0.3)
    below = oracle.ttest_ind(X + 0.2, Y, equal_var=False, alternative="greater")
    above = oracle.ttest_ind(X - 0.3, Y, equal_var=False, alternative="less")

    assert (result.p_low, result.p_high) == pytest.approx((below.pvalue, above.pvalue), rel=1e-10)
    assert (result.statistic_low, result.statistic_high) == pytest.approx((below.statistic, above.statistic), rel=1e-11)


def test_equal_arms_without_bounds_decide_nothing_and_with_bounds_only_when_there_are_enough():
    few, many = np.full(20, 0.5), np.full(500, 0.5)

    assert tost_paired(few, few, low=-0.05, high=0.05).equivalent is None
    assert tost_paired(few, few, low=-0.05, high=0.05).status == "degenerate"
    assert tost_paired(few, few, low=-0.05, high=0.05, bounds=(0, 1)).equivalent is False
    assert tost_paired(many, many, low=-0.05, high=0.05, bounds=(0, 1)).equivalent is True
    assert tost_welch(few, few, low=-0.05, high=0.05).equivalent is None
    assert tost_welch(many, many, low=-0.05, high=0.05, bounds=(0, 1)).equivalent is True


def test_no_values_decide_nothing_about_proportions():
    paired, apart = (
        tost_paired_proportions(0, 0, 0, low=-0.1, high=0.1),
        tost_proportions(0, 0, 3, 4, low=-0.1, high=0.1),
    )

    for result in (paired, apart):
        assert (result.equivalent, result.p_value, result.status) == (None, None, "insufficient_data")
        assert (result.interval.low, result.interval.high) == (-1, 1)


@pytest.mark.parametrize("options", [{"low": 0.1, "high": -0.1}, {"low": 0.1, "high": 0.1}])
def test_margins_must_be_in_their_order(options):
    with pytest.raises(ValueError, match="lower margin must be below"):
        tost_paired(X, Y, **options)
    with pytest.raises(ValueError, match="lower margin must be below"):
        tost_proportions(1, 2, 3, 4, **options)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.2])
def test_alpha_must_leave_a_level(alpha):
    with pytest.raises(ValueError, match=r"between 0 and 0\.5"):
        tost_one_sample(X, low=0.0, high=1.0, alpha=alpha)
    with pytest.raises(ValueError, match=r"between 0 and 0\.5"):
        noninferiority_paired_proportions(1, 2, 9, margin=0.1, alpha=alpha)


# -- non-inferiority ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(pairs(), st.floats(0, 0.9), ALPHAS, st.booleans())
def test_non_inferiority_of_means_agrees_with_its_bound(arms, margin, alpha, bounded):
    bounds = (0.0, 1.0) if bounded else None
    for test in (noninferiority_paired, noninferiority_welch):
        result = test(*arms, margin=margin, alpha=alpha, bounds=bounds)
        if result.p_value is None or abs(result.p_value - alpha) < 1e-9:
            continue

        assert result.noninferior == (result.p_value < alpha) == (result.interval.low > -margin)


@given(counts(), counts(), st.integers(0, 90), ALPHAS)
def test_non_inferiority_of_proportions_agrees_with_its_bound(first, second, percent, alpha):
    margin = percent / 100
    for result in (
        noninferiority_paired_proportions(*first, margin=margin, alpha=alpha),
        noninferiority_proportions(first[0], first[2], second[0], second[2], margin=margin, alpha=alpha),
    ):
        assume(abs(result.p_value - alpha) > 1e-9)

        assert result.noninferior == (result.p_value < alpha) == (result.interval.low > -margin)


def test_the_bound_of_a_gate_allows_for_unseen_values_when_bounds_are_known():
    paired = noninferiority_paired(X, Y, margin=0.1, bounds=(0, 1))
    apart = noninferiority_welch(X, Y, margin=0.1, bounds=(0, 1))

    assert paired.interval.low == pytest.approx(gaffke_bound(X - Y, end=-1.0, alpha=0.05, side="lower"), rel=1e-12)
    assert apart.interval.low == pytest.approx(melded_bound(X, Y, bounds=(0, 1), alpha=0.05, side="lower"), rel=1e-12)
    assert paired.estimate == pytest.approx((X - Y).mean())
    assert (paired.method, paired.statistic, paired.dof) == ("non-inferiority, paired gaffke", None, ())


def test_an_equal_candidate_passes_with_enough_samples():
    """Other gates want a significant improvement, and fail a candidate that is as good as the baseline."""
    arm = RNG.random(2000)

    assert noninferiority_paired(arm, arm, margin=0.02, bounds=(0, 1)).noninferior is True
    assert noninferiority_paired_proportions(0, 0, 2000, margin=0.02).noninferior is True


def test_a_margin_is_how_much_worse_is_still_good_enough():
    for margin in (-0.1, math.nan):
        with pytest.raises(ValueError, match="at least 0"):
            noninferiority_paired(X, Y, margin=margin)


def test_one_half_of_the_equivalence_test_is_non_inferiority():
    one, both = noninferiority_paired(X, Y, margin=0.1), tost_paired(X, Y, low=-0.1, high=0.5)

    assert (one.p_value, one.interval) == (both.p_low, both.interval)


# -- ratios -------------------------------------------------------------------------------------------------------


@given(LATENCIES, LATENCIES)
def test_swapped_arms_have_the_reciprocal_ratio(x, y):
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    for test in (
        geometric_mean_ratio_paired,
        geometric_mean_ratio_welch,
        ratio_of_totals,
        lambda one, other: ratio_of_totals(one, other, method="fieller"),
    ):
        one, other = test(x, y), test(y, x)

        assert one.estimate == pytest.approx(1 / other.estimate, rel=1e-9)
        assert (one.p_value is None) == (other.p_value is None)
        assert one.p_value is None or one.p_value == pytest.approx(other.p_value, rel=1e-7, abs=1e-12)
        if one.interval and other.interval and other.interval.low > 0 and math.isfinite(one.interval.high):
            assert one.interval.high == pytest.approx(1 / other.interval.low, rel=1e-6)


@given(LATENCIES, LATENCIES, st.sampled_from(["two-sided", "greater", "less"]))
def test_a_ratio_of_one_is_excluded_when_p_is_small(x, y, alternative):
    size = min(len(x), len(y))
    for result in (
        geometric_mean_ratio_paired(x[:size], y[:size], alternative=alternative),
        geometric_mean_ratio_welch(x, y, alternative=alternative),
        ratio_of_totals(x[:size], y[:size], alternative=alternative),
        ratio_of_totals(x[:size], y[:size], alternative=alternative, method="fieller"),
    ):
        if result.interval is None or result.p_value is None or abs(result.p_value - 0.05) < 1e-7:
            continue

        assert 0 <= result.interval.low <= result.estimate * (1 + 1e-12)
        assert result.estimate <= result.interval.high * (1 + 1e-12)
        assert (not result.interval.low <= 1 <= result.interval.high) == (result.p_value < 0.05)


def test_fieller_ends_are_the_ratios_that_the_t_test_just_keeps():
    x, y = RNG.gamma(5, 1, 15), RNG.gamma(6, 1, 15)
    interval = ratio_of_totals(x, y, method="fieller").interval

    for end in (interval.low, interval.high):
        assert paired_t(x - end * y).p_value == pytest.approx(0.05, rel=1e-6)


def test_a_baseline_near_zero_has_no_fieller_interval():
    result = ratio_of_totals([1.0, 2.0, 3.0], [0.0, 0.0, 5.0], method="fieller")

    assert result.interval is None
    assert "too uncertain" in result.note


def test_with_many_pairs_both_intervals_of_a_ratio_agree():
    x, y = RNG.gamma(5, 1, 20_000), RNG.gamma(6, 1, 20_000)
    delta, fieller = ratio_of_totals(x, y), ratio_of_totals(x, y, method="fieller")

    assert (delta.interval.low, delta.interval.high) == pytest.approx(
        (fieller.interval.low, fieller.interval.high), rel=1e-4
    )


@pytest.mark.parametrize("method", ["log-delta", "fieller"])
def test_questions_in_clusters_of_one_are_independent(method):
    x, y = RNG.gamma(5, 1, 12), RNG.gamma(6, 1, 12)
    alone, labelled = (
        ratio_of_totals(x, y, method=method),
        ratio_of_totals(x, y, method=method, clusters=list("abcdefghijkl")),
    )
    twice = ratio_of_totals(np.repeat(x, 2), np.repeat(y, 2), method=method, clusters=np.repeat(np.arange(12), 2))

    assert alone.interval.low == pytest.approx(labelled.interval.low, rel=1e-9)
    assert alone.p_value == pytest.approx(labelled.p_value, rel=1e-9)
    assert alone.interval.low == pytest.approx(twice.interval.low, rel=1e-9)
    with pytest.raises(NotEnoughData, match="2 cluster"):
        ratio_of_totals(x, y, method=method, clusters=["a", "b"] * 6)


def test_one_ratio_in_all_pairs_has_no_error():
    y = RNG.random(8) + 0.5
    geometric, totals = geometric_mean_ratio_paired(1.1 * y, y), ratio_of_totals(1.1 * y, y)

    assert (geometric.status, geometric.p_value, geometric.interval) == ("degenerate", 2.0**-7, None)
    assert geometric.estimate == pytest.approx(1.1)
    assert (totals.status, totals.p_value, totals.estimate) == ("degenerate", None, pytest.approx(1.1))
    assert ratio_of_totals(y, y, method="fieller").p_value == geometric_mean_ratio_paired(y, y).p_value == 1.0


def test_ratios_need_positive_values():
    with pytest.raises(ValueError, match="positive values: 1 of 3"):
        geometric_mean_ratio_paired([1.0, 2.0, 3.0], [1.0, 0.0, 3.0])
    with pytest.raises(ValueError, match="positive values: 2 of 3"):
        geometric_mean_ratio_welch([1.0, -2.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 of 4 are not"):
        ratio_of_totals([1.0, -2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not 3 and 0"):
        ratio_of_totals([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="'bootstrap'"):
        ratio_of_totals([1.0, 2.0], [1.0, 2.0], method="bootstrap")
    with pytest.raises(ValueError, match="not 0 of them"):
        geometric_mean_ratio_paired([], [])
