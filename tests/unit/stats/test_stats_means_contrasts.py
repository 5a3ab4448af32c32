"""Gaffke's bound of a contrast of means: the bounds that it generalises, its direction, and claims that agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats import gaffke_bound
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums, melded_bound, ratio_lower_bound

SCORES = st.lists(st.integers(0, 20).map(lambda score: score / 20), min_size=2, max_size=30)
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


@given(SCORES, SCORES)
def test_a_limit_is_excluded_exactly_where_its_p_value_is_small(first, second):
    contrast = difference(first, second)

    bound = contrast.lower_bound(0.05)

    assert contrast.lowest <= bound <= contrast.estimate + 1e-12
    assert contrast.p_value(bound - 1e-4) <= 0.0501
    assert bound == contrast.estimate or contrast.p_value(bound + 1e-4) > 0.0499


@given(SCORES, SCORES, st.floats(0.001, 0.2))
def test_a_smaller_alpha_never_helps(first, second, alpha):
    contrast = difference(first, second)

    assert contrast.lower_bound(alpha / 2) <= contrast.lower_bound(alpha) + 1e-6


@given(SCORES, SCORES)
def test_the_ratio_bound_excludes_1_where_the_difference_excludes_0(first, second):
    ratio = ratio_lower_bound(units(first), units(second), bounds=(0.0, 1.0), shares_units=False, alpha=0.05)

    bound = difference(first, second).lower_bound(0.05)
    assert abs(bound) < 1e-4 or (ratio > 1) == (bound > 0)
