"""Rare events: exact rates and their ratio."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import pdtr, pdtrc

from pytest_crucible.stats.counts.poisson import (
    poisson_rate_bound,
    poisson_rate_interval,
    poisson_rate_ratio,
    poisson_ratio_interval,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
EVENTS = st.integers(0, 200)
EXPOSURES = st.floats(0.01, 1e6)


@given(EVENTS, EXPOSURES, LEVELS)
def test_garwood_ends_put_the_events_into_the_tails(events, exposure, level):
    interval = poisson_rate_interval(events, exposure, level=level)

    assert interval.low <= events / exposure <= interval.high
    assert pdtr(events, interval.high * exposure) == pytest.approx((1 - level) / 2, rel=1e-8)
    if events:
        assert pdtrc(events - 1, interval.low * exposure) == pytest.approx((1 - level) / 2, rel=1e-8)
    else:
        assert interval.low == 0.0


def test_no_event_is_the_rule_of_three():
    assert poisson_rate_bound(0, 100, alpha=0.05, side="upper") == pytest.approx(-math.log(0.05) / 100)
    assert poisson_rate_bound(0, 100, alpha=0.05, side="lower") == 0.0


@given(EVENTS, EXPOSURES, EVENTS, EXPOSURES, LEVELS)
def test_central_and_one_sided_tests_agree_with_their_intervals(events1, exposure1, events2, exposure2, level):
    for facts in ({"two_sided": "central"}, {"alternative": "greater"}, {"alternative": "less"}):
        result = poisson_rate_ratio(events1, exposure1, events2, exposure2, level=level, **facts)
        if abs(result.p_value - (1 - level)) > 1e-9:
            excludes = result.interval.low > 1 or result.interval.high < 1
            assert excludes == (result.p_value < 1 - level)


@given(EVENTS, EXPOSURES, EVENTS, EXPOSURES)
def test_swapping_the_arms_inverts_the_ratio_and_keeps_p(events1, exposure1, events2, exposure2):
    one = poisson_rate_ratio(events1, exposure1, events2, exposure2)
    other = poisson_rate_ratio(events2, exposure2, events1, exposure1)
    there = poisson_ratio_interval(events1, exposure1, events2, exposure2)
    back = poisson_ratio_interval(events2, exposure2, events1, exposure1)

    assert (one.interval, other.interval) == (there, back)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-6)
    assert there.low == pytest.approx(1 / back.high if back.high else math.inf, rel=1e-12)
    if one.estimate is not None:
        assert there.low <= one.estimate <= there.high


def test_equal_exposures_are_a_sign_test():
    """5 events against none: 2 / 2^5 by likelihood as by tails."""
    for two_sided in ("likelihood", "central"):
        assert poisson_rate_ratio(0, 50, 5, 50, two_sided=two_sided).p_value == pytest.approx(0.0625)


def test_no_event_in_an_arm_leaves_an_end_of_the_interval():
    """R: poisson.test(c(0, 5), c(10, 12)) has [0, 1.31]. There 5 of 5 events are in the second arm with probability .025."""
    result = poisson_rate_ratio(0, 10, 5, 12)
    share = 1 - 0.025 ** (1 / 5)

    assert (result.estimate, result.interval.low) == (0.0, 0.0)
    assert result.interval.high == pytest.approx(share / (1 - share) * 12 / 10)
    assert poisson_rate_ratio(5, 12, 0, 10).interval.high == math.inf


@given(EVENTS, EVENTS)
def test_a_likelihood_p_value_that_contradicts_the_interval_says_so(events1, events2):
    result = poisson_rate_ratio(events1, 3.0, events2, 2.0)
    excludes = result.interval.low > 1 or result.interval.high < 1

    if events1 + events2:
        assert bool(result.note) == (excludes != (result.p_value < 0.05))


def test_rates_at_their_edges():
    nothing = poisson_rate_ratio(0, 3.0, 0, 5.0)

    assert (nothing.status, nothing.p_value, nothing.estimate) == ("degenerate", 1.0, None)
    assert (poisson_ratio_interval(0, 3, 0, 5).low, poisson_ratio_interval(0, 3, 0, 5).high) == (0.0, math.inf)
    assert poisson_rate_ratio(4, 3.0, 0, 5.0).estimate == math.inf
    assert poisson_ratio_interval(4, 3, 2, 5, alternative="less").low == 0.0
    assert poisson_ratio_interval(4, 3, 2, 5, alternative="greater").high == math.inf


@pytest.mark.parametrize("counts", [(-1, 5.0), (1, 0.0), (1, -2.0), (1, math.inf), (1, math.nan)])
def test_impossible_counts_and_exposures_are_refused(counts):
    with pytest.raises(ValueError, match=r"\d"):
        poisson_rate_interval(*counts)
    with pytest.raises(ValueError, match=r"\d"):
        poisson_rate_ratio(*counts, 3, 10.0)
