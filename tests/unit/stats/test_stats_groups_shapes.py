"""Shapiro-Wilk and Kolmogorov-Smirnov: known values, complete enumeration, and data without a shape."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.groups.shapes import ks_normal, ks_two_sample, shapiro_wilk

SMALL = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


@given(SMALL, SMALL)
def test_the_exact_p_value_is_that_of_all_arrangements(x, y):
    pooled, m = np.array(x + y), len(x)

    def distance(inside: tuple[int, ...]) -> int:
        mask = np.zeros(pooled.size, dtype=bool)
        mask[list(inside)] = True
        points = np.unique(pooled)
        below = (pooled[mask] <= points[:, None]).sum(1) * (~mask).sum()
        return int(np.abs(below - (pooled[~mask] <= points[:, None]).sum(1) * mask.sum()).max())

    seen = distance(tuple(range(m)))
    share = np.mean([distance(one) >= seen for one in itertools.combinations(range(pooled.size), m)])
    found = ks_two_sample(x, y)

    assert found.statistic == pytest.approx(seen / (m * len(y)))
    assert found.p_value == pytest.approx(share, rel=1e-12)


@given(SMALL, SMALL)
def test_swapping_the_arms_and_bending_the_scale_change_nothing(x, y):
    plain = ks_two_sample(x, y)

    for other in (ks_two_sample(y, x), ks_two_sample(np.exp(x), np.exp(y))):
        assert (other.statistic, other.p_value) == pytest.approx((plain.statistic, plain.p_value), rel=1e-12)


def test_separated_arms_have_one_arrangement_on_each_side_in_the_far_tail_as_well():
    found = ks_two_sample(np.arange(60.0), np.arange(60.0) + 100)

    assert found.p_value == pytest.approx(2 / math.comb(120, 60), rel=1e-9)


def test_auto_counts_small_arms_and_approximates_large_ones():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=600), rng.normal(0.2, 1, size=500)
    auto, exact = ks_two_sample(x, y), ks_two_sample(x, y, method="exact")

    assert auto.method.endswith("asymptotic")
    assert auto.p_value == pytest.approx(exact.p_value, abs=1e-4)
    assert ks_two_sample(x[:100], y[:100]).method.endswith("exact")


def test_one_value_at_the_median_is_half_away_from_it():
    found = ks_normal([3.0], mean=3.0, deviation=2.0)

    assert (found.statistic, found.p_value) == (0.5, 1.0)


def test_two_values_by_the_closed_form():
    # For n = 2 and 1/2 <= D <= 1 the p-value is 2 (1 - D)^2.
    found = ks_normal([-2.0, -1.5], mean=0.0, deviation=1.0)

    assert found.p_value == pytest.approx(2 * (1 - found.statistic) ** 2, rel=1e-12)


def test_exact_and_asymptotic_meet_for_many_values():
    values = np.random.default_rng(3).normal(size=2000)
    exact = ks_normal(values, mean=0.0, deviation=1.0)
    limit = ks_normal(values, mean=0.0, deviation=1.0, method="asymptotic")

    assert exact.statistic == limit.statistic
    assert exact.p_value == pytest.approx(limit.p_value, abs=0.02)
    assert exact.p_value != limit.p_value


@given(st.lists(st.integers(0, 50), min_size=3, max_size=30), st.integers(-5, 5))
def test_shapiro_does_not_see_where_the_values_lie_or_on_which_scale(values, shift):
    plain, moved = shapiro_wilk(values), shapiro_wilk([4.0 * value + shift for value in values])

    assert moved.status == plain.status
    if plain.status == "ok":
        assert 0 < plain.statistic <= 1 + 1e-12
        assert 0 <= plain.p_value <= 1
        assert moved.statistic == pytest.approx(plain.statistic, rel=1e-9)


def test_shapiro_of_three_values_has_a_closed_form():
    # W = (x3 - x1)^2 / (2 SS) for three values, and p = 1.90985931710274 (asin(sqrt(W)) - 1.04719755119660).
    found = shapiro_wilk([0.1, 0.5, 0.6])

    assert found.statistic == pytest.approx(0.25 / (2 * 0.14), rel=1e-6)
    assert found.p_value == pytest.approx(6 / math.pi * (math.asin(math.sqrt(found.statistic)) - math.pi / 3), rel=1e-6)


def test_equal_values_have_no_shape():
    found = shapiro_wilk([0.1 + 0.2, 0.3, 0.3])

    assert (found.statistic, found.p_value, found.status) == (None, None, "degenerate")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: shapiro_wilk([1.0, 2.0, math.nan]), "1 of 3"),
        (lambda: shapiro_wilk(np.arange(5001.0)), "5001 values"),
        (lambda: ks_normal([1.0], mean=0.0, deviation=0.0), "positive deviation"),
        (lambda: ks_normal([math.inf], mean=0.0, deviation=1.0), "1 of 1"),
        (lambda: ks_two_sample([1.0], [math.nan]), "1 of 1"),
        (lambda: ks_two_sample([1.0], [2.0], method="bootstrap"), "not 'bootstrap'"),
    ],
)
def test_wrong_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: shapiro_wilk([1.0, 2.0]),
        lambda: ks_normal([], mean=0.0, deviation=1.0),
        lambda: ks_two_sample([], [1.0]),
    ],
)
def test_too_few_values_are_not_enough(call):
    with pytest.raises(NotEnoughData, match=r"\d"):
        call()
