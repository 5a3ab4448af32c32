"""Tails and quantiles in `math` alone, against scipy.special, sums of exact fractions, and their own inverses."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special

from pytest_crucible.stats.distributions import (
    beta_cdf,
    beta_quantile,
    beta_sf,
    beta_upper_quantile,
    binomial_cdf,
    normal_cdf,
    normal_quantile,
    t_cdf,
    t_quantile,
)

TAILS = st.floats(1e-9, 0.5)
DOFS = st.one_of(st.integers(1, 1_000_000).map(float), st.floats(0.5, 1e6))


@st.composite
def counts(draw, most=100_000):
    """Successes and trials: any, and few of either."""
    n = draw(st.integers(2, most))
    few = draw(st.integers(1, min(9, n - 1)))
    return draw(st.sampled_from((few, n - few, draw(st.integers(1, n - 1))))), n


@given(st.floats(-37, 8))
def test_the_normal_tail_is_that_of_scipy(x):
    assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12)


@given(st.one_of(st.floats(1e-300, 1e-6), st.floats(1e-6, 1 - 1e-6)))
def test_the_normal_quantile_is_that_of_scipy(p):
    assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-12, abs=1e-15)


def test_the_ends_of_the_normal_quantile_are_infinite():
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)
    assert math.isnan(normal_quantile(2.0))


@given(counts(), TAILS)
def test_bounds_of_counts_are_those_of_scipy(pair, tail):
    k, n = pair

    assert beta_quantile(tail, k, n - k + 1) == pytest.approx(special.betaincinv(k, n - k + 1, tail), rel=1e-12)
    assert beta_upper_quantile(tail, k + 1, n - k) == pytest.approx(special.betainccinv(k + 1, n - k, tail), rel=1e-12)


# scipy's own error of a million trials with few successes is 6e-12, by arithmetic of 40 digits.
@given(counts(most=1_000_000), TAILS)
def test_bounds_of_a_million_are_those_of_scipy_within_its_own_error(pair, tail):
    k, n = pair

    assert beta_quantile(tail, k, n - k + 1) == pytest.approx(special.betaincinv(k, n - k + 1, tail), rel=1e-11)


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.floats(1e-6, 0.5))
def test_a_quantile_of_fractional_counts_has_its_tail(a, b, tail):
    low, high = beta_quantile(tail, a, b), beta_upper_quantile(tail, a, b)
    # Closer to 1, the last digit of a quantile changes its tail.
    assume(high < 0.999)

    assert beta_cdf(low, a, b) == pytest.approx(tail, rel=1e-10)
    assert beta_sf(high, a, b) == pytest.approx(tail, rel=1e-10)
    assert low <= high


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("rate", [Fraction(1, 64), Fraction(1, 2), Fraction(31, 32)])
def test_a_tail_is_the_sum_of_its_exact_chances(n, rate):
    total = Fraction(0)
    for k in range(n):
        total += math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
        assert binomial_cdf(k, n, float(rate)) == pytest.approx(float(total), rel=2e-14)
        assert beta_cdf(float(rate), k + 1, n - k) == pytest.approx(float(1 - total), rel=2e-13)
    assert (binomial_cdf(-1, n, 0.5), binomial_cdf(n, n, 0.5)) == (0.0, 1.0)


# Near the mean of a million trials: betaincc, because bdtr is wrong by 1e-9 there.
@given(counts(most=1_000_000), st.floats(-6, 6))
def test_a_binomial_tail_is_that_of_scipy(pair, deviations):
    k, n = pair
    rate = min(max(k / n + deviations * math.sqrt(k * (n - k) / n) / n, 1e-3 / n), 1 - 1e-3 / n)

    assert binomial_cdf(k, n, rate) == pytest.approx(special.betaincc(k + 1, n - k, rate), rel=1e-11)


@given(DOFS, st.floats(-30, 30))
def test_the_t_tail_is_that_of_scipy(dof, t):
    assert t_cdf(dof, t) == pytest.approx(special.stdtr(dof, t), rel=1e-12)


@given(DOFS, st.one_of(TAILS, TAILS.map(lambda tail: 1 - tail)))
def test_the_t_quantile_is_that_of_scipy(dof, p):
    assert t_quantile(dof, p) == pytest.approx(special.stdtrit(dof, p), rel=1e-12, abs=1e-12)


def test_the_t_law_of_endless_degrees_of_freedom_is_normal():
    assert t_cdf(math.inf, -1.5) == normal_cdf(-1.5)
    assert t_quantile(math.inf, 0.025) == normal_quantile(0.025)
    assert (t_quantile(3, 0.0), t_quantile(3, 0.5), t_cdf(3, -math.inf)) == (-math.inf, 0.0, 0.0)


def test_a_quantile_of_nothing_is_at_the_end():
    assert (beta_quantile(0.0, 2, 3), beta_upper_quantile(0.0, 2, 3)) == (0.0, 1.0)
    assert (beta_cdf(0.0, 2, 3), beta_sf(1.0, 2, 3)) == (0.0, 0.0)
    assert math.isnan(beta_cdf(math.nan, 2, 3))
