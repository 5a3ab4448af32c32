"""Invariants that hold for all data: what an interval contains, what swapping the arms does, when p and interval agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import (
    estimate,
    mean_bound,
    quantile_bound,
    quantile_interval,
    tango_interval,
    tango_p_value,
    wilson_interval,
)
from pytest_crucible.stats.proportions.one import clopper_pearson_interval

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
SCORES = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1).map(lambda value: round(value, 3)))
BITS = st.sampled_from([0.0, 1.0])
NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))
KINDS = [("binary", BITS, (0.0, 1.0)), ("bounded", SCORES, (0.0, 1.0)), ("unbounded", NUMBERS, (-math.inf, math.inf))]
PAIRED = [(*kind, clustered) for kind in KINDS for clustered in (False, True)]
NAMES = [f"{kind[0]}-{'clustered' if kind[3] else 'independent'}" for kind in PAIRED]


@st.composite
def counts(draw: st.DrawFn, largest: int = 400) -> tuple[int, int, int]:
    n = draw(st.integers(1, largest))
    gained = draw(st.integers(0, n))
    return gained, draw(st.integers(0, n - gained)), n


@st.composite
def arm(draw: st.DrawFn, values: st.SearchStrategy[float], clustered: bool):
    n = draw(st.integers(1, 40))
    clusters = draw(st.lists(st.integers(0, 7), min_size=n, max_size=n)) if clustered else None
    return np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=float), clusters


@given(counts(), LEVELS)
def test_wilson_and_clopper_pearson_are_ordered_and_contain_the_rate(given_counts, level):
    successes, _, n = given_counts
    for interval in (wilson_interval(successes, n, level=level), clopper_pearson_interval(successes, n, level=level)):
        assert 0 <= interval.low <= successes / n + 1e-15
        assert successes / n - 1e-15 <= interval.high <= 1
        assert interval.level == level


@given(counts(), LEVELS)
@example((6, 1, 20), 0.95)
@example((5, 0, 5), 0.95)
@example((4, 0, 4), 0.95)
def test_tango_excludes_zero_exactly_when_its_p_value_is_small(given_counts, level):
    gained, lost, n = given_counts

    interval = tango_interval(gained, lost, n, level=level)

    assert (interval.low > 0 or interval.high < 0) == (tango_p_value(gained, lost, n) < 1 - level)


@given(counts(), LEVELS)
def test_tango_ends_are_where_the_statistic_is_z(given_counts, level):
    gained, lost, n = given_counts

    interval = tango_interval(gained, lost, n, level=level)

    for end in (interval.low, interval.high):
        if abs(end) < 1:
            assert tango_p_value(gained, lost, n, difference=end) == pytest.approx(1 - level, rel=1e-6)


@pytest.mark.parametrize(("kind", "values", "bounds", "clustered"), PAIRED, ids=NAMES)
@given(data=st.data())
@settings(max_examples=choose_examples(80))
def test_estimates_and_bounds_lie_around_the_mean_and_inside_the_bounds(kind, values, bounds, clustered, data):
    array, clusters = data.draw(arm(values, clustered))
    facts = {"kind": kind, "bounds": bounds, "clusters": clusters}

    estimated = estimate(array, **facts)
    low, high = mean_bound(array, side="lower", **facts), mean_bound(array, side="upper", **facts)

    slack = 1e-9 * max(1.0, abs(estimated.estimate or 0.0))
    if estimated.interval is not None and estimated.estimate is not None:
        assert estimated.interval.low - slack <= estimated.estimate <= estimated.interval.high + slack
        assert bounds[0] <= estimated.interval.low
        assert estimated.interval.high <= bounds[1]
    if low.value is not None:
        assert bounds[0] <= low.value <= high.value <= bounds[1]
        if estimated.estimate is not None:
            assert low.value - slack <= estimated.estimate <= high.value + slack


@given(st.lists(NUMBERS, min_size=1, max_size=80), st.floats(0.01, 0.99), LEVELS)
def test_quantile_ends_are_observed_or_infinite(values, q, level):
    interval = quantile_interval(values, q, level=level)

    assert interval.low <= interval.high
    assert interval.low in values or interval.low == -math.inf
    assert interval.high in values or interval.high == math.inf
    assert quantile_bound(values, q, alpha=(1 - level) / 2, side="upper") == interval.high
