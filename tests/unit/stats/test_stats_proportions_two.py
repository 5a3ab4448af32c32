"""Two independent proportions: coherence, symmetry, exact levels, and values that others have published."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_crucible.stats.effects import cohens_h
from pytest_crucible.stats.means.moments import normal_p_value
from pytest_crucible.stats.proportions.score import (
    constrained_rate,
    odds_ratio_score,
    risk_ratio_score,
    score_interval,
    score_statistic,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
ALTERNATIVES = st.sampled_from(["two-sided", "greater", "less"])


RATIOS = [odds_ratio_score, risk_ratio_score]


@st.composite
def arms(draw: st.DrawFn, largest: int = 150) -> tuple[int, int, int, int]:
    n1, n2 = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return draw(st.integers(0, n1)), n1, draw(st.integers(0, n2)), n2


def score_p_value(x1, n1, x2, n2, *, difference=0.0, alternative="two-sided", skewness=True):
    """The p-value of the score statistic (Farrington & Manning 1990)."""
    return normal_p_value(score_statistic(x1, n1, x2, n2, difference=difference, skewness=skewness), alternative)


def swap(counts: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return *counts[2:], *counts[:2]


# -- the score statistic ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "skewness", "low", "high", "p_value"),
    [
        ((12, 16, 1, 16), True, 0.38567597, 0.8778839, 9.741092e-05),
        ((19, 29, 22, 30), True, -0.31189939, 0.1600794, 5.178555e-01),
        ((5, 56, 0, 29), True, -0.01861751, 0.1867180, 8.199729e-02),
        ((12, 16, 1, 16), False, 0.37497827, 0.862899, 9.741092e-05),
        ((19, 29, 22, 30), False, -0.30859360, 0.158172, 5.180842e-01),
        ((5, 56, 0, 29), False, -0.03259659, 0.193331, 9.917565e-02),
    ],
)
def test_published_score_intervals(counts, skewness, low, high, p_value):
    """The examples in the manual of R's ratesci, whose search stops at 1e-6 or so."""
    interval = score_interval(*counts, skewness=skewness)

    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-6)
    assert score_p_value(*counts, skewness=skewness) == pytest.approx(p_value, rel=1e-6)


@given(arms(), LEVELS, ALTERNATIVES, st.booleans())
@example((0, 7, 0, 3), 0.95, "two-sided", True)
@example((1, 1, 0, 40), 0.5, "two-sided", True)
def test_the_score_interval_excludes_0_exactly_when_its_p_value_is_small(counts, level, alternative, skewness):
    interval = score_interval(*counts, level=level, alternative=alternative, skewness=skewness)
    p_value = score_p_value(*counts, alternative=alternative, skewness=skewness)

    if abs(p_value - (1 - level)) > 1e-12:
        assert (interval.low > 0 or interval.high < 0) == (p_value < 1 - level)


@given(arms(), LEVELS, st.booleans())
def test_swapping_the_arms_negates_the_score_interval_and_keeps_p(counts, level, skewness):
    single = score_interval(*counts, level=level, skewness=skewness)
    other = score_interval(*swap(counts), level=level, skewness=skewness)

    assert (single.low, single.high) == (-other.high, -other.low)
    assert score_p_value(*counts, skewness=skewness) == score_p_value(*swap(counts), skewness=skewness)
    assert score_statistic(*counts) == -score_statistic(*swap(counts))


@given(arms(), LEVELS)
def test_the_score_interval_contains_the_difference_and_its_ends_are_where_the_statistic_is_z(counts, level):
    x1, n1, x2, n2 = counts

    interval = score_interval(*counts, level=level, skewness=False)

    assert -1 <= interval.low <= x1 / n1 - x2 / n2 <= interval.high <= 1
    for end in (interval.low, interval.high):
        if 1e-6 < abs(end) < 0.999:
            assert score_p_value(*counts, difference=end, skewness=False) == pytest.approx(1 - level, rel=1e-5)


@given(arms(40), st.floats(0.001, 0.999))
def test_the_constrained_rate_is_the_most_likely_one(counts, difference):
    x1, n1, x2, n2 = counts
    rates = np.linspace(0, 1 - difference, 2001)[1:-1]

    def log_likelihood(second):
        first = second + difference
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = [(x1, first), (n1 - x1, 1 - first), (x2, second), (n2 - x2, 1 - second)]
            return sum(count * np.log(rate) for count, rate in terms if count)

    best = constrained_rate(*counts, difference)

    assert 0 <= best <= 1 - difference
    assert log_likelihood(np.float64(best)) >= np.max(log_likelihood(rates)) - 1e-9


@given(arms())
def test_without_skewness_the_statistic_at_0_is_the_pooled_z(counts):
    x1, n1, x2, n2 = counts
    rate, n = (x1 + x2) / (n1 + n2), n1 + n2
    se = math.sqrt(rate * (1 - rate) * (1 / n1 + 1 / n2) * n / (n - 1))

    z = score_statistic(*counts, skewness=False)

    assert z == (pytest.approx((x1 / n1 - x2 / n2) / se, abs=1e-9) if se else 0.0)


@pytest.mark.parametrize(("n1", "n2"), [(10, 10), (12, 40), (20, 100), (50, 200)])
def test_the_exact_size_stays_near_the_level_where_the_plain_score_test_does_not(n1, n2):
    sizes = {skewness: _largest_error(n1, n2, skewness) for skewness in (True, False)}

    assert sizes[True] <= 0.06
    if (n1, n2) == (50, 200):
        assert sizes[False] > 0.09


def _largest_error(n1: int, n2: int, skewness: bool) -> float:
    """The largest chance, over 100 common rates, of p < .05."""
    rejected = np.array(
        [[score_p_value(x1, n1, x2, n2, skewness=skewness) < 0.05 for x2 in range(n2 + 1)] for x1 in range(n1 + 1)]
    )
    return max(_masses(n1, p) @ rejected @ _masses(n2, p) for p in np.arange(0.005, 0.501, 0.005))


def _masses(n: int, p: float) -> np.ndarray:
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


def test_non_inferiority_is_a_score_test_at_the_margin():
    assert score_p_value(45, 50, 46, 50, difference=-0.2, alternative="greater") < 0.025
    assert score_p_value(45, 50, 46, 50, difference=-0.02, alternative="greater") > 0.2
    with pytest.raises(ValueError, match=r"between -1 and 1, not 1\.5"):
        score_statistic(1, 2, 1, 2, difference=1.5)


def test_the_score_statistic_at_the_corners():
    assert score_statistic(7, 7, 0, 5, difference=1.0) == 0.0
    assert score_statistic(6, 7, 0, 5, difference=1.0) == -math.inf
    assert score_statistic(0, 7, 0, 5) == 0.0
    assert score_interval(7, 7, 0, 5).high == 1.0
    assert score_interval(0, 7, 5, 5).low == -1.0


# -- ratios and angles --------------------------------------------------------------------------------------------


def test_published_score_ratios():
    """ratesci's vignette: SCAS risk ratio of 5/56 to 0/29, Miettinen-Nurminen odds ratio of 5/56 to 1/29."""
    risk, odds = risk_ratio_score(5, 56, 0, 29), odds_ratio_score(5, 56, 1, 29, skewness=False)

    assert (risk.value, risk.interval.high) == (math.inf, math.inf)
    assert risk.interval.low == pytest.approx(0.7696, abs=5e-5)
    assert odds.value == pytest.approx(2.745098, abs=1e-6)
    assert (odds.interval.low, odds.interval.high) == pytest.approx((0.392931, 18.56785), rel=1e-5)


@pytest.mark.parametrize("ratio", RATIOS)
@given(arms(60), LEVELS)
def test_swapping_the_arms_inverts_ratios(ratio, counts, level):
    single, other = ratio(*counts, level=level), ratio(*swap(counts), level=level)

    assert single.interval.high == (1 / other.interval.low if other.interval.low else math.inf)
    if single.value is not None:
        assert single.interval.low * (1 - 1e-12) <= single.value <= single.interval.high * (1 + 1e-12)
        assert single.value == (pytest.approx(1 / other.value, rel=1e-15) if other.value else math.inf)


@given(arms(60), LEVELS)
def test_exchanging_successes_and_failures_inverts_the_odds_ratio(counts, level):
    x1, n1, x2, n2 = counts

    single = odds_ratio_score(x1, n1, x2, n2, level=level).interval
    other = odds_ratio_score(n1 - x1, n1, n2 - x2, n2, level=level).interval

    assert single.low == pytest.approx(1 / other.high if other.high else math.inf, rel=1e-6)


def test_cohens_h_of_impossible_rates_is_refused():
    assert cohens_h(1.0, 0.0) == pytest.approx(math.pi)
    with pytest.raises(ValueError, match=r"not 1\.1"):
        cohens_h(1.1, 0.5)
