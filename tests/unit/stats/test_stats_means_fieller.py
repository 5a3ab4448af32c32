"""The interval of a ratio of two means: Fieller's own against his formula, and the corrected one by its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.fieller import fieller_interval

AMOUNTS = st.lists(st.tuples(st.floats(0.01, 100), st.booleans()), min_size=5, max_size=40).filter(
    lambda rows: any(success for _, success in rows)
)


def solve_fieller(x, y, level):
    """Return the roots of Fieller's quadratic, of which the larger is infinite where the denominator may be 0."""
    n, t = len(x), student.ppf((1 + level) / 2, len(x) - 1)
    (xx, xy), (_, yy) = np.cov(x, y) * t * t / n
    a, b, c = np.mean(y) ** 2 - yy, np.mean(x) * np.mean(y) - xy, np.mean(x) ** 2 - xx
    root = math.sqrt(b * b - a * c)
    return ((b - root) / a, (b + root) / a) if a > 0 else ((b - root) / a, math.inf)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("successes", [0.3, 0.6, 0.95])
def test_without_correction_the_ends_are_the_roots_of_fiellers_quadratic(successes, level):
    rng = np.random.default_rng([int(successes * 100), int(level * 100)])
    x, y = rng.lognormal(size=80), (rng.random(80) < successes).astype(float)

    interval = fieller_interval(x, y, level=level, skewed=False)

    assert (interval.low, interval.high) == pytest.approx(solve_fieller(x, y, level), rel=1e-8)


def test_values_that_are_not_skewed_need_no_correction():
    x, y = [4.0, 5.0, 6.0, 4.0, 5.0, 6.0], [1.0] * 6

    corrected, plain = fieller_interval(x, y), fieller_interval(x, y, skewed=False)

    assert (corrected.low, corrected.high) == pytest.approx((plain.low, plain.high))


@given(AMOUNTS, st.floats(0.1, 50))
def test_the_interval_has_the_ratio_and_scales_with_the_unit_of_the_amount(rows, unit):
    x, y = np.array([amount for amount, _ in rows]), np.array([float(success) for _, success in rows])

    interval, scaled = fieller_interval(x, y, skewed=False), fieller_interval(unit * x, y, skewed=False)

    assert interval.low <= x.sum() / y.sum() * (1 + 1e-9)
    assert interval.high >= x.sum() / y.sum() * (1 - 1e-9)
    assert scaled.low == pytest.approx(unit * interval.low, rel=1e-5, abs=1e-9)
    assert scaled.high == pytest.approx(unit * interval.high, rel=1e-5)


def test_a_cluster_counts_as_one_unit():
    x, y = [1.0, 2.0, 3.0, 1.0, 5.0, 2.0, 2.0, 2.5], [1, 0, 1, 1, 1, 0, 1, 1]

    of_totals = fieller_interval([3.0, 4.0, 7.0, 4.5], [1, 2, 1, 2])

    assert fieller_interval(x, y, clusters=list("aabbccdd")) == of_totals


def test_few_successes_leave_the_amount_without_an_upper_end():
    interval = fieller_interval([4, 5, 6, 5], [1, 0, 0, 0])

    assert 0 < interval.low < 5
    assert interval.high == math.inf


@pytest.mark.parametrize(("x", "y"), [([1.0, 2.0], [1, 1]), ([1.0, 2.0, 3.0], [0, 0, 0])])
def test_too_little_data_is_refused(x, y):
    with pytest.raises(NotEnoughData, match="a ratio needs three units, and a denominator that is not 0"):
        fieller_interval(x, y)


def test_equal_amounts_and_only_successes_have_no_width():
    assert fieller_interval([2.0] * 5, [1.0] * 5).low == pytest.approx(2.0)
    assert fieller_interval([2.0] * 5, [1.0] * 5).high == pytest.approx(2.0)
