"""Quantiles: the estimate, and what the interval between order statistics covers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.ranks.quantiles import (
    quantile_coverage,
    quantile_estimate,
    quantile_interval,
    quantile_ranks,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
SHARES = st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
NUMBERS = st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=60)


@given(NUMBERS, SHARES)
def test_the_estimate_is_numpys(values, q):
    assert quantile_estimate(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-12, abs=1e-9)


@given(NUMBERS, st.sampled_from([0.25, 0.5, 0.75]), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_interval_of_a_quartile_contains_the_estimate(values, q, level):
    interval = quantile_interval(values, q, level=level)

    assert interval.low <= max(values)
    assert interval.high >= min(values)
    assert interval.low <= quantile_estimate(values, q) <= interval.high


@given(st.integers(1, 60), st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(3, 4)]), LEVELS)
def test_the_coverage_is_the_binomial_sum_and_at_least_the_level(n, q, level):
    low, high = quantile_ranks(n, float(q), tail=(1 - level) / 2)
    expected = sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(low, min(high, n + 1)))

    coverage = quantile_coverage(n, float(q), level=level)

    assert coverage == pytest.approx(float(expected), abs=1e-12)
    assert coverage >= level - 1e-12


def test_quantiles_at_their_edges():
    assert quantile_estimate([3.0], 0.9) == 3.0
    assert quantile_coverage(1, 0.5) == 1.0
    with pytest.raises(NotEnoughData, match="no values"):
        quantile_estimate([], 0.5)
    with pytest.raises(ValueError, match="1 of 2 values are NaN"):
        quantile_estimate([1.0, math.nan], 0.5)
    with pytest.raises(ValueError, match=r"q must lie between 0 and 1, not 1\.0"):
        quantile_estimate([1.0], 1.0)
