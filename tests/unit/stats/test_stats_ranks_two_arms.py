"""Rank tests, dominance and shifts of two independent arms: by hand, by enumeration, and against scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.ranks.superiority import cles, cles_interval, cliffs_delta

GRADES = st.integers(1, 5).map(float)


# -- dominance ------------------------------------------------------------------------------------------------------


def test_newcombe_keeps_an_interval_for_separated_arms():
    effect = cles([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15, 0.05])
    t, n, z2 = effect.interval.low, 3.5, 1.959963984540054**2

    assert effect.interval.high == 1.0
    assert 0.5 < t < 0.7
    # The end solves Newcombe's equation with 1 - t divided out of both sides.
    assert 1 - t == pytest.approx(z2 * t * (1 + n * (1 - t) / (2 - t) + n * t / (1 + t)) / 20, rel=1e-12)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.999]))
def test_newcombe_contains_the_share_mirrors_and_widens_with_the_level(first, second, share, level):
    interval, mirrored = cles_interval(share, first, second, level=level), cles_interval(1 - share, first, second)

    assert 0 <= interval.low <= share + 1e-15
    assert share - 1e-15 <= interval.high <= 1
    assert interval.low < interval.high
    assert cles_interval(share, first, second).low == pytest.approx(1 - mirrored.high, abs=1e-9)
    wider = cles_interval(share, first, second, level=(1 + level) / 2)
    assert wider.low <= interval.low
    assert interval.high <= wider.high


def test_newcombe_refuses_what_is_no_share_of_two_arms():
    with pytest.raises(ValueError, match=r"1\.2 of 5, 6"):
        cles_interval(1.2, 5, 6)
    with pytest.raises(ValueError, match="of 0, 6"):
        cles_interval(0.5, 0, 6)


@given(st.lists(GRADES, min_size=2, max_size=12), st.lists(GRADES, min_size=2, max_size=12))
def test_cliffs_delta_mirrors_and_stays_inside_its_interval(first, second):
    delta, mirrored = cliffs_delta(first, second), cliffs_delta(second, first)

    assert delta.value == -mirrored.value
    assert -1 <= delta.interval.low <= delta.value <= delta.interval.high <= 1
    assert delta.interval.low == pytest.approx(-mirrored.interval.high, abs=1e-12)


def test_separated_arms_have_an_interval():
    assert -1 < cliffs_delta([5, 6, 7], [1, 2]).interval.low < 1
