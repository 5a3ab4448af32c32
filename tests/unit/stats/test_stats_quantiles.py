"""Quantiles: the estimate, and what the interval between order statistics covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.ranks.quantiles import (
    quantile_estimate,
    quantile_interval,
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
