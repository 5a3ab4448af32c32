"""Numbers at the edges of the floats: no square overflows or vanishes, no p-value is 0, no single point is an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.stats import bootstrap, gaffke_bound
from pytest_crucible.stats.means.clustered import clustered_arms
from pytest_crucible.stats.means.differences import melded_bound
from pytest_crucible.stats.means.ratios import geometric_mean_ratio_paired, geometric_mean_ratio_welch

RNG = np.random.default_rng(5)
FIRST, SECOND = RNG.normal(0.5, 1, 12), RNG.normal(0, 1, 12)
LABELS, OTHER_LABELS = list("aabbccddeeff"), list("gghhiijjkkll")


@pytest.mark.parametrize("unit", [1e160, 1e-170])
def test_the_unit_of_the_scores_does_not_matter(unit):
    plain, scaled = (clustered_arms(FIRST * by, SECOND * by, LABELS, OTHER_LABELS) for by in (1.0, unit))

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


@pytest.mark.parametrize("method", ["percentile", "basic"])
def test_a_single_point_is_no_bootstrap_interval(method):
    nearly_all = [0.0] * 40 + [1.0]
    result = bootstrap(nearly_all, np.median, method=method)

    assert (result.interval, result.note) == (None, "too many ties: the interval would be a single point")
