"""Equivalence, non-inferiority and ratios: tests against margins agree with their intervals, always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.ratios import geometric_mean_ratio_paired, geometric_mean_ratio_welch, ratio_of_totals

RNG = np.random.default_rng(13)


LATENCIES = st.lists(st.integers(1, 4000).map(float), min_size=3, max_size=20)


# -- ratios -------------------------------------------------------------------------------------------------------


@given(LATENCIES, LATENCIES)
def test_swapped_arms_have_the_reciprocal_ratio(x, y):
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    for test in (geometric_mean_ratio_paired, geometric_mean_ratio_welch, ratio_of_totals):
        single, other = test(x, y), test(y, x)

        assert single.estimate == pytest.approx(1 / other.estimate, rel=1e-9)
        assert (single.p_value is None) == (other.p_value is None)
        assert single.p_value is None or single.p_value == pytest.approx(other.p_value, rel=1e-7, abs=1e-12)
        if single.interval and other.interval and other.interval.low > 0 and math.isfinite(single.interval.high):
            assert single.interval.high == pytest.approx(1 / other.interval.low, rel=1e-6)


@given(LATENCIES, LATENCIES, st.sampled_from(["two-sided", "greater", "less"]))
def test_a_ratio_of_one_is_excluded_when_p_is_small(x, y, alternative):
    size = min(len(x), len(y))
    for result in (
        geometric_mean_ratio_paired(x[:size], y[:size], alternative=alternative),
        geometric_mean_ratio_welch(x, y, alternative=alternative),
        ratio_of_totals(x[:size], y[:size]),
    ):
        if result.interval is None or result.p_value is None or abs(result.p_value - 0.05) < 1e-7:
            continue

        assert 0 <= result.interval.low <= result.estimate * (1 + 1e-12)
        assert result.estimate <= result.interval.high * (1 + 1e-12)
        assert (not result.interval.low <= 1 <= result.interval.high) == (result.p_value < 0.05)


def test_samples_in_clusters_of_one_are_independent():
    x, y = RNG.gamma(5, 1, 12), RNG.gamma(6, 1, 12)
    alone, labelled = ratio_of_totals(x, y), ratio_of_totals(x, y, clusters=list("abcdefghijkl"))
    twice = ratio_of_totals(np.repeat(x, 2), np.repeat(y, 2), clusters=np.repeat(np.arange(12), 2))

    assert alone.interval.low == pytest.approx(labelled.interval.low, rel=1e-9)
    assert alone.p_value == pytest.approx(labelled.p_value, rel=1e-9)
    assert alone.interval.low == pytest.approx(twice.interval.low, rel=1e-9)
    with pytest.raises(NotEnoughData, match="2 cluster"):
        ratio_of_totals(x, y, clusters=["a", "b"] * 6)


def test_one_ratio_in_all_pairs_has_no_error():
    y = RNG.random(8) + 0.5
    geometric, totals = geometric_mean_ratio_paired(1.1 * y, y), ratio_of_totals(1.1 * y, y)

    assert (geometric.status, geometric.p_value, geometric.interval) == ("degenerate", 2.0**-7, None)
    assert geometric.estimate == pytest.approx(1.1)
    assert (totals.status, totals.p_value, totals.estimate) == ("degenerate", None, pytest.approx(1.1))
    assert ratio_of_totals(y, y).p_value == geometric_mean_ratio_paired(y, y).p_value == 1.0


def test_ratios_need_positive_values():
    with pytest.raises(ValueError, match="positive values: 1 of 3"):
        geometric_mean_ratio_paired([1.0, 2.0, 3.0], [1.0, 0.0, 3.0])
    with pytest.raises(ValueError, match="positive values: 2 of 3"):
        geometric_mean_ratio_welch([1.0, -2.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 of 4 are not"):
        ratio_of_totals([1.0, -2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not 3 and 0"):
        ratio_of_totals([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="not 0 of them"):
        geometric_mean_ratio_paired([], [])
