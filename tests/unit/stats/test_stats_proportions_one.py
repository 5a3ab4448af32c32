"""One proportion: the intervals that reports use, the exact test, and clustered samples."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.proportions.binomial import binomial_p_value, binomial_test
from pytest_crucible.stats.proportions.clustered import (
    clustered_logit_interval,
    clustered_proportion_se,
    korn_graubard_interval,
)
from pytest_crucible.stats.proportions.one import (
    agresti_coull_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wald_interval,
    wilson_interval,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
INTERVALS = [
    wilson_interval,
    lambda x, n, level=0.95: wilson_interval(x, n, level=level, correction=True),
    clopper_pearson_interval,
    agresti_coull_interval,
    jeffreys_interval,
    wald_interval,
]
NAMES = ["wilson", "wilson-cc", "clopper-pearson", "agresti-coull", "jeffreys", "wald"]
every_interval = pytest.mark.parametrize("interval", INTERVALS, ids=NAMES)


@st.composite
def successes(draw: st.DrawFn, largest: int = 300) -> tuple[int, int]:
    n = draw(st.integers(1, largest))
    return draw(st.integers(0, n)), n


@every_interval
def test_nothing_asked_leaves_everything_possible(interval):
    assert (interval(0, 0).low, interval(0, 0).high) == (0.0, 1.0)


@every_interval
@pytest.mark.parametrize("counts", [(5, 4), (-1, 4), (0, -1)])
def test_impossible_counts_are_refused(interval, counts):
    with pytest.raises(ValueError, match="at most n="):
        interval(*counts)


@every_interval
@given(successes(), LEVELS)
def test_intervals_lie_inside_0_and_1_and_mirror_for_failures(interval, counts, level):
    x, n = counts

    one, other = interval(x, n, level=level), interval(n - x, n, level=level)

    assert 0 <= one.low <= one.high <= 1
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-11)


@given(successes(), LEVELS)
def test_the_continuity_correction_only_widens(counts, level):
    plain, corrected = wilson_interval(*counts, level=level), wilson_interval(*counts, level=level, correction=True)

    assert corrected.low <= plain.low <= counts[0] / counts[1] <= plain.high + 1e-15
    assert plain.high <= corrected.high
    assert corrected != plain


def test_intervals_of_10_of_10():
    """z = 1.959964: Agresti-Coull centre (10 + z^2 / 2) / (10 + z^2) = .861240, half width .182103."""
    unclipped = agresti_coull_interval(10, 10, clip=False)

    assert (unclipped.low, unclipped.high) == pytest.approx((0.679113, 1.043355), abs=1e-6)
    assert agresti_coull_interval(10, 10).high == 1.0
    assert jeffreys_interval(10, 10).high == 1.0
    assert (wald_interval(10, 10).low, wald_interval(10, 10).high) == (1.0, 1.0)


# -- exact test ---------------------------------------------------------------------------------------------------


def enumerated(x: int, n: int, rate: float) -> float:
    """Two-sided p-value by adding up all outcomes that are no more likely."""
    masses = [math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
    return min(1.0, math.fsum(mass for mass in masses if mass <= masses[x] * (1 + 1e-7)))


@given(successes(40), st.one_of(st.sampled_from([0.5, 0.25, 0.1]), st.floats(0.01, 0.99)))
def test_the_exact_test_is_the_sum_over_all_outcomes(counts, rate):
    assert binomial_test(*counts, rate).p_value == pytest.approx(enumerated(*counts, rate), rel=1e-9)


@given(successes(), st.floats(0.001, 0.999), LEVELS)
def test_central_and_one_sided_tests_agree_with_their_clopper_pearson_intervals(counts, rate, level):
    for facts in ({"two_sided": "central"}, {"alternative": "greater"}, {"alternative": "less"}):
        result = binomial_test(*counts, rate, level=level, **facts)
        if abs(result.p_value - (1 - level)) > 1e-9:
            outside = not result.interval.low <= rate <= result.interval.high
            assert outside == (result.p_value < 1 - level)


@given(successes(), st.floats(0.0, 1.0))
@example((0, 4), sys.float_info.min)
def test_successes_and_failures_have_the_same_exact_p_value(counts, rate):
    x, n = counts

    p_value = binomial_p_value(x, n, rate, "two-sided")

    assert 0 <= p_value <= 1
    assert p_value == pytest.approx(binomial_p_value(n - x, n, 1 - rate, "two-sided"), rel=1e-6)
    assert binomial_p_value(x, n, rate, "greater") == pytest.approx(
        binomial_p_value(n - x, n, 1 - rate, "less"), rel=1e-6
    )


@pytest.mark.parametrize(("successes", "n"), [(1, 1), (0, 50), (1, 50), (25, 50), (50, 50), (3, 2_000)])
@pytest.mark.parametrize("rate", [sys.float_info.min, 1e-307, 1e-30, 1e-4])
def test_where_successes_are_rare_all_outcomes_from_the_observed_one_on_count(successes, n, rate):
    tail = math.fsum(
        math.comb(n, i) * rate**i * (1 - rate) ** (n - i) for i in range(successes, successes + 9) if i <= n
    )

    assert binomial_p_value(successes, n, rate, "two-sided") == pytest.approx(min(tail, 1.0), rel=1e-9, abs=0)


def test_an_interval_that_contradicts_the_likelihood_p_value_says_so():
    """R: binom.test(37, 50, 0.6) has p = .044 and the interval [.597, .854]."""
    likelihood, central = binomial_test(37, 50, 0.6), binomial_test(37, 50, 0.6, two_sided="central")

    assert likelihood.interval == central.interval == clopper_pearson_interval(37, 50)
    assert (likelihood.p_value < 0.05, likelihood.interval.low < 0.6) == (True, True)
    assert "only one of them excludes 0.6" in likelihood.note
    assert central.note == binomial_test(25, 50, 0.6).note == ""


def test_the_exact_test_at_its_edges():
    assert binomial_test(0, 0).p_value is None
    assert binomial_test(0, 0).status == "insufficient_data"
    assert binomial_test(0, 5, 0.0).p_value == 1.0
    assert binomial_test(1, 5, 0.0).p_value == 0.0
    assert binomial_test(5, 5, 1.0).p_value == 1.0
    assert binomial_test(5, 10).p_value == 1.0
    assert binomial_test(0, 900).p_value == pytest.approx(2.0**-899, rel=1e-9)
    with pytest.raises(ValueError, match=r"1\.5"):
        binomial_test(1, 2, 1.5)


# -- clusters -----------------------------------------------------------------------------------------------------

VALUES = [1, 1, 0, 1, 0, 0, 1, 0, 1, 1]
CLUSTERS = list("aabbccddee")


def test_the_clustered_standard_error_by_hand():
    """Rate .6; residual sums .8, -.2, -1.2, -.2, .8; squares add up to 2.8; 5 / 4 * 2.8 / 100 = .035."""
    assert clustered_proportion_se(VALUES, CLUSTERS) == pytest.approx(math.sqrt(0.035), rel=1e-14)


def test_the_logit_interval_by_hand():
    half = 2.7764451051977987 * math.sqrt(0.035) / 0.24
    expected = [1 / (1 + math.exp(-(math.log(1.5) + sign * half))) for sign in (-1, 1)]

    interval = clustered_logit_interval(VALUES, CLUSTERS)

    assert [interval.low, interval.high] == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.sampled_from([0, 1]), min_size=20, max_size=40), LEVELS)
def test_zeros_and_ones_mirror_in_the_logit_interval(values, level):
    clusters = [i % 7 for i in range(len(values))]

    one = clustered_logit_interval(values, clusters, level=level)
    other = clustered_logit_interval([1 - value for value in values], clusters, level=level)

    if sum(values) in (0, len(values)):
        assert one is None
        assert other is None
    else:
        assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-12)
        assert 0 <= one.low <= np.mean(values) + 1e-12
        assert np.mean(values) - 1e-12 <= one.high <= 1


def test_few_clusters_and_graded_values_are_refused():
    for method in (clustered_proportion_se, clustered_logit_interval, korn_graubard_interval):
        with pytest.raises(NotEnoughData, match="4 cluster"):
            method([0, 1, 0, 1], list("abcd"))
        with pytest.raises(ValueError, match="1 of 5 values are neither 0 nor 1"):
            method([0, 1, 0, 1, 0.5], list("abcde"))
        with pytest.raises(ValueError, match="1 of 5 values are NaN"):
            method([0, 1, 0, 1, math.nan], list("abcde"))
