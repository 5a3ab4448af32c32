"""Numbers at the edges of the floats: no square overflows or vanishes, no p-value is 0, no single point is an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.stats import (
    bootstrap,
    clustered_arms,
    clustered_t,
    gaffke_bound,
    geometric_mean_ratio_paired,
    geometric_mean_ratio_welch,
    melded_bound,
    one_sample_trimmed_t,
    paired_t,
    paired_trimmed_t,
    point_mass_p_value,
    score_interval,
    score_p_value,
    score_statistic,
    sign_flip,
    welch_t,
    yuen_welch,
)
from pytest_crucible.stats.means.point_mass import constant_arms_p_value, equal_differences_p_value

RNG = np.random.default_rng(5)
FIRST, SECOND = RNG.normal(0.5, 1, 12), RNG.normal(0, 1, 12)
LABELS, OTHER_LABELS = list("aabbccddeeff"), list("gghhiijjkkll")
TESTS = {
    "clustered t": lambda unit: clustered_t(FIRST * unit, LABELS),
    "clustered arms": lambda unit: clustered_arms(FIRST * unit, SECOND * unit, LABELS, OTHER_LABELS),
    "trimmed": lambda unit: one_sample_trimmed_t(FIRST * unit),
    "paired trimmed": lambda unit: paired_trimmed_t(FIRST * unit, SECOND * unit),
    "yuen": lambda unit: yuen_welch(FIRST * unit, SECOND * unit),
}


@pytest.mark.parametrize("unit", [1e160, 1e-170])
@pytest.mark.parametrize("name", TESTS)
def test_the_unit_of_the_scores_does_not_matter(name, unit):
    plain, scaled = TESTS[name](1.0), TESTS[name](unit)

    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-9)
    assert scaled.interval.low / unit == pytest.approx(plain.interval.low, rel=1e-9)
    assert scaled.se / unit == pytest.approx(plain.se, rel=1e-9)


@pytest.mark.parametrize("unit", [1e160, 1e-170])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_nor_does_it_for_bounds_by_random_weights(side, unit):
    def bounds(unit):
        how, end = {"alpha": 0.05, "side": side}, {"lower": -9 * unit, "upper": 9 * unit}[side]
        arms, labels = (FIRST * unit, SECOND * unit), (LABELS, OTHER_LABELS)
        both = melded_bound(*arms, bounds=(-9 * unit, 9 * unit), clusters=labels, **how)
        return gaffke_bound(FIRST * unit, end=end, clusters=LABELS, **how) / unit, both / unit

    assert bounds(unit) == pytest.approx(bounds(1.0), rel=1e-6)


@pytest.mark.parametrize("ratio", [geometric_mean_ratio_paired, geometric_mean_ratio_welch])
def test_a_ratio_beyond_the_largest_number_is_infinite(ratio):
    result = ratio([1e300, 1e-300], [1e-300, 1e-300])

    assert result.estimate == pytest.approx(1e300)
    assert (result.interval.low, result.interval.high) == (0.0, math.inf)


@pytest.mark.parametrize("n", [1074, 1075, 1076, 3000])
def test_no_exact_p_value_is_0(n):
    smallest = math.ulp(0.0)

    assert 0 < sign_flip([1.0] * n).p_value < 1e-300
    assert 0 < paired_t([1.0] * n).p_value < 1e-300
    assert equal_differences_p_value(1.0, n, "greater") >= smallest
    assert equal_differences_p_value(1.0, n, "less") == 1.0
    assert 0 < welch_t([1.0] * n, [0.0] * n).p_value < 1e-300
    assert constant_arms_p_value(-1.0, (n, n), "less") == smallest
    assert 0 < point_mass_p_value(1.0, n, bounds=(-1.0, 1.0)) < 1e-300


@pytest.mark.parametrize("difference", [5e-324, 1e-308, 1e-200, 1e-17])
@pytest.mark.parametrize("counts", [(0, 1, 0, 1), (1, 1, 1, 1), (0, 9, 0, 4), (3, 5, 1, 8), (5, 5, 1, 8)])
@pytest.mark.parametrize("skewness", [True, False])
def test_a_difference_too_small_to_be_told_from_0_is_0(counts, difference, skewness):
    for sign in (1, -1):
        shifted = {"difference": sign * difference, "skewness": skewness}

        assert score_statistic(*counts, **shifted) == score_statistic(*counts, skewness=skewness)
        assert score_p_value(*counts, **shifted) == score_p_value(*counts, skewness=skewness)


def test_the_smallest_differences_that_count_leave_a_p_value():
    for counts in ((0, 1, 0, 1), (1, 1, 1, 1), (2, 2, 2, 2)):
        for difference in (3e-16, 1e-12, -3e-16, -1e-12, 1.0, -1.0):
            if abs(difference) < 1:
                assert 0 < score_p_value(*counts, difference=difference) <= 1
            assert not math.isnan(score_statistic(*counts, difference=difference))
        assert score_interval(*counts).low < 0 < score_interval(*counts).high


@pytest.mark.parametrize("method", ["percentile", "basic"])
def test_a_single_point_is_no_bootstrap_interval(method):
    nearly_all = [0.0] * 40 + [1.0]
    result = bootstrap(nearly_all, np.median, method=method)

    assert (result.interval, result.note) == (None, "too many ties: the interval would be a single point")
