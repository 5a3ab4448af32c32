"""Bounds of differences with a declared largest change of one pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from pytest_crucible import stats
from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.values import limit_changes
from pytest_crucible.stats.inputs import beyond_reach

scores = st.integers(0, 100).map(lambda hundredths: hundredths / 100)
CHANGES = np.random.default_rng(3).normal(0.03, 0.05, 50).clip(-0.2, 0.2)
BASELINE = np.random.default_rng(4).uniform(0.3, 0.7, 50)


def bounds(reach=None, *, kind="bounded", ends=(0, 1), **options):
    return stats.difference_bounds(BASELINE + CHANGES, BASELINE, kind=kind, bounds=ends, reach=reach, **options)


def test_changes_of_the_whole_reach_have_the_bounds_of_clopper_and_pearson():
    """Gaffke's bound of two values, at the ends of their range, is that of a proportion: here 5 of 20."""
    candidate = np.array([0.75] * 5 + [0.25] * 15)
    result = stats.difference_bounds(candidate, np.full(20, 0.5), bounds=(0, 1), reach=0.25, alpha=0.05)
    share = beta.ppf(0.05, 5, 16), beta.ppf(0.95, 6, 15)

    assert (result.low, result.high) == pytest.approx([0.5 * end - 0.25 for end in share], abs=2e-3)


def test_a_reach_narrows_bounds_and_gives_unbounded_values_some():
    wide, narrow, unbounded = bounds(), bounds(0.25), bounds(0.25, kind="unbounded", ends=None)

    assert wide.low < 0 < narrow.low < CHANGES.mean() < narrow.high < wide.high
    assert (unbounded.low, unbounded.high) == pytest.approx((narrow.low, narrow.high))
    assert bounds(kind="unbounded", ends=None).low is None


def test_a_reach_as_wide_as_the_range_changes_nothing():
    assert (bounds(1.0).low, bounds(1.0).high) == (bounds().low, bounds().high)


def test_a_reach_scales_with_the_values():
    plain = bounds(0.25)
    scaled = stats.difference_bounds(
        100 * (BASELINE + CHANGES), 100 * BASELINE, kind="bounded", bounds=(0, 100), reach=25.0
    )

    assert (scaled.low, scaled.high) == pytest.approx((100 * plain.low, 100 * plain.high), rel=1e-6)


@pytest.mark.parametrize("reach", [0, -1, math.inf, math.nan])
def test_an_invalid_reach_is_refused(reach):
    with pytest.raises(ValueError, match="reach"):
        bounds(reach)


def test_pairs_beyond_the_reach_and_independent_arms_are_refused():
    with pytest.raises(ValueError, match=r"2 of 3 pairs differ by more than reach=0\.1"):
        stats.compare([0.1, 0.5, 0.9], [0.1, 0.2, 0.5], bounds=(0, 1), reach=0.1)
    with pytest.raises(ValueError, match=r"reach=0\.1 is the largest difference of a pair"):
        stats.compare([0.1, 0.5], [0.1, 0.2], paired=False, bounds=(0, 1), reach=0.1)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e3), st.sampled_from([-1, 1]))
def test_a_change_of_exactly_the_reach_is_within_it(value, reach, sign):
    """Rounding never refutes a declaration, at any size of the values."""
    pair = np.array([value + sign * reach]), np.array([value])

    assert not beyond_reach(*pair, reach).any()
    clear = abs(value) * 1e-14 + reach * 1e-8
    assert beyond_reach(np.array([value + sign * (reach + clear)]), pair[1], reach).any() or clear < 1e-300


@given(
    st.lists(st.tuples(scores, scores), min_size=1, max_size=8),
    st.floats(0.01, 1.0),
    st.sampled_from([(0.0, 1.0), (-math.inf, math.inf), (0.0, math.inf)]),
    st.integers(0, 255),
    st.integers(0, 255),
    st.booleans(),
)
def test_lost_values_stay_within_the_reach_of_their_pair(pairs, reach, ends, lost, lost_too, up):
    """At every end: the change of a lost pair is the one that range and reach both allow."""
    first, second = (np.array(values) for values in zip(*pairs, strict=True))
    second = np.clip(second, first - reach, first + reach)
    ours, theirs = (np.array([code >> k & 1 for k in range(first.size)], dtype=bool) for code in (lost, lost_too))
    first[ours], second[theirs] = ends[up], ends[not up]
    whole = first - second

    limited = limit_changes(*(Prepared(values=arm, bounds=ends, largest_change=reach) for arm in (first, second)))
    change = limited[0].values - limited[1].values

    assert change == pytest.approx(np.clip(whole, -reach, reach))
    for arm in limited:
        assert ((arm.values >= ends[0] - 1e-9) & (arm.values <= ends[1] + 1e-9)).all()
