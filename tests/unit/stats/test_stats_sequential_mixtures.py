"""Closed-form, mixture, asymptotic and Bernoulli sequences: by hand, against their definitions, and their laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.integrate import quad
from scipy.stats import beta, gamma

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.sequential.asymptotic import (
    asymptotic_interval,
    asymptotic_p_values,
    asymptotic_sequence,
    running_deviation,
)
from pytest_crucible.stats.sequential.bernoulli import bernoulli_interval, bernoulli_sequence
from pytest_crucible.stats.sequential.betting import betting_sequence
from pytest_crucible.stats.sequential.empirical_bernstein import empirical_bernstein_sequence, hoeffding_sequence
from pytest_crucible.stats.sequential.mixtures import (
    gamma_exponential_boundary,
    mixing_variance,
    mixture_bernstein_sequence,
    mixture_hoeffding_sequence,
    normal_mixture_boundary,
    stitched_boundary,
)

SCORES = st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=60)
SEQUENCES = {
    "bernstein": empirical_bernstein_sequence,
    "hoeffding": hoeffding_sequence,
    "mixture hoeffding": lambda values, **options: mixture_hoeffding_sequence(values, best_at=50, **options),
    "mixture bernstein": lambda values, **options: mixture_bernstein_sequence(values, best_at=2.5, **options),
}
EACH = pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)


@EACH
@settings(max_examples=choose_examples(30))
@given(values=SCORES)
def test_sequences_are_nested_ordered_within_bounds_and_mirrored(sequence, values):
    one, other = sequence(values), sequence([1 - value for value in values])

    assert (np.diff(one.lower) >= 0).all()
    assert (np.diff(one.upper) <= 0).all()
    assert one.lower.min() >= 0
    assert one.upper.max() <= 1
    assert other.lower == pytest.approx(1 - one.upper, abs=1e-9)


@EACH
@settings(max_examples=choose_examples(20))
@given(values=SCORES, low=st.floats(-50, 50), width=st.floats(0.01, 100))
def test_scaling_the_bounds_scales_the_answer(sequence, values, low, width):
    bounds = (low, low + width)
    one, other = sequence(values), sequence(np.clip(low + width * np.array(values), *bounds), bounds=bounds)

    assert other.lower == pytest.approx(low + width * one.lower, abs=1e-7 * width)
    assert other.upper == pytest.approx(low + width * one.upper, abs=1e-7 * width)


@settings(max_examples=choose_examples(30))
@given(SCORES)
def test_sequences_centred_on_the_mean_contain_it_before_they_are_intersected(values):
    for name in ("mixture hoeffding", "mixture bernstein"):
        found = SEQUENCES[name](values, intersect=False)

        assert (found.lower <= found.estimate + 1e-12).all()
        assert (found.estimate <= found.upper + 1e-12).all()


def test_betting_is_narrower_than_bernstein_and_bernstein_than_hoeffding_where_little_varies():
    values = np.random.default_rng(0).beta(18, 2, 400)
    widths = [
        float(found.upper[-1] - found.lower[-1])
        for found in (betting_sequence(values), empirical_bernstein_sequence(values), hoeffding_sequence(values))
    ]

    assert widths == sorted(widths)
    assert widths[2] > 3 * widths[0]


def test_one_hoeffding_step_by_hand():
    """One value: stake min(sqrt(8 log(1 / .1) / log 2), 1) = 1, so that the end is x - log 10 - 1 / 8, below 0."""
    assert hoeffding_sequence([0.9], alpha=0.1, alternative="greater").lower.tolist() == [0.0]
    stake = math.sqrt(8 * math.log(2) / (1 * math.log(2)))
    assert stake > 1
    assert hoeffding_sequence([0.9], alpha=0.5, alternative="greater").lower[0] == pytest.approx(
        0.9 - math.log(2) - 1 / 8
    )


# -- boundaries ---------------------------------------------------------------------------------------------------


def test_a_two_sided_normal_boundary_is_where_the_integrated_mixture_reaches_1_over_alpha():
    rho, bound = mixing_variance(100.0, 0.05), float(normal_mixture_boundary([60.0], alpha=0.05, best_at=100.0)[0])

    def mixed(bet):
        return math.exp(bet * bound - bet**2 * 60 / 2 - rho * bet**2 / 2) * math.sqrt(rho / (2 * math.pi))

    assert quad(mixed, -10, 10, points=[bound / 160])[0] == pytest.approx(20, rel=1e-8)


def test_a_one_sided_normal_boundary_is_where_the_half_normal_mixture_reaches_1_over_alpha():
    rho = mixing_variance(100.0, 0.1)
    bound = float(normal_mixture_boundary([60.0], alpha=0.05, best_at=100.0, one_sided=True)[0])

    def mixed(bet):
        return 2 * math.exp(bet * bound - bet**2 * 60 / 2 - rho * bet**2 / 2) * math.sqrt(rho / (2 * math.pi))

    assert quad(mixed, 0, 10, points=[bound / 160])[0] == pytest.approx(20, rel=1e-8)
    assert bound < float(normal_mixture_boundary([60.0], alpha=0.05, best_at=100.0)[0])


def test_a_gamma_exponential_boundary_is_where_its_mixture_reaches_1_over_alpha():
    """Against psi(bet) = -log(1 - bet) - bet with a gamma density of 1 - bet, cut to bet in (0, 1)."""
    rho = mixing_variance(20.0, 0.1)
    bound = float(gamma_exponential_boundary([12.0], alpha=0.05, best_at=20.0, scale=1.0)[0])
    inside = gamma.cdf(1.0, rho, scale=1 / rho)

    def mixed(bet):
        wealth = math.exp(bet * bound - 12 * (-math.log1p(-bet) - bet))
        return wealth * gamma.pdf(1 - bet, rho, scale=1 / rho) / inside

    assert quad(mixed, 0, 1)[0] == pytest.approx(20, rel=1e-7)


def test_the_stitched_boundary_is_constant_before_its_start_and_rises_after():
    bounds = stitched_boundary([0.0, 1.0, 5.0, 20.0, 100.0], alpha=0.05, starts_at=5.0)

    assert bounds[0] == bounds[1] == bounds[2] < bounds[3] < bounds[4]
    assert (stitched_boundary([5.0, 50.0], alpha=0.05, starts_at=5.0, scale=1.0) > bounds[[2, 3]]).all()


@given(st.floats(0, 1e4), st.sampled_from([0.001, 0.05, 0.3]), st.floats(0.5, 1e3))
def test_boundaries_are_positive_and_fall_with_alpha(time, alpha, best_at):
    boundaries = (
        lambda alpha: normal_mixture_boundary([time], alpha=alpha, best_at=best_at),
        lambda alpha: normal_mixture_boundary([time], alpha=alpha, best_at=best_at, one_sided=True, tuned_alpha=0.05),
        lambda alpha: gamma_exponential_boundary([time], alpha=alpha, best_at=best_at, scale=1.0, tuned_alpha=0.05),
        lambda alpha: stitched_boundary([time], alpha=alpha, starts_at=best_at),
    )
    for boundary in boundaries:
        assert boundary(alpha / 2)[0] > boundary(alpha)[0] > 0


# -- proportions --------------------------------------------------------------------------------------------------


def test_the_ends_of_a_proportion_are_where_the_beta_mixture_of_likelihoods_reaches_1_over_alpha():
    interval, pseudo = bernoulli_interval(18, 40, planned=60), mixing_variance(60, 0.05) - 1
    for p in (interval.low, interval.high):

        def mixed(q, p=p):
            return (q / p) ** 18 * ((1 - q) / (1 - p)) ** 22 * beta.pdf(q, pseudo * p, pseudo * (1 - p))

        assert quad(mixed, 0, 1, limit=200)[0] == pytest.approx(20, rel=1e-6)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.01, 0.05, 0.2]))
def test_intervals_of_proportions_are_ordered_contain_the_rate_and_mirror(successes, failures, alpha):
    n = successes + failures
    one = bernoulli_interval(successes, n, planned=50, alpha=alpha)
    other = bernoulli_interval(failures, n, planned=50, alpha=alpha)

    rate = successes / n if n else 0.5
    assert 0 <= one.low <= rate <= one.high <= 1
    assert (one.low == 0) == (successes == 0)
    assert other.low == pytest.approx(1 - one.high, abs=1e-12)


def test_without_values_every_proportion_is_left():
    interval = bernoulli_interval(0, 0, planned=50)

    assert (interval.low, interval.high) == (0.0, 1.0)


def test_a_sequence_of_bits_has_the_interval_of_its_counts():
    bits = np.random.default_rng(2).integers(0, 2, 40)

    found = bernoulli_sequence(bits, planned=50, intersect=False)

    for n in (1, 7, 40):
        interval = bernoulli_interval(int(bits[:n].sum()), n, planned=50)
        assert (found.lower[n - 1], found.upper[n - 1]) == (interval.low, interval.high)
    assert (np.diff(bernoulli_sequence(bits, planned=50).lower) >= 0).all()


# -- the asymptotic sequence --------------------------------------------------------------------------------------


def test_an_asymptotic_look_is_the_normal_mixture_of_the_standardised_sum():
    """rho^2 is the variance of the mixture's bets: the boundary of variance n with 1 / rho^2 mixed in."""
    look = asymptotic_interval(0.2, 0.5, 100, planned=200)

    assert look.halfwidth == pytest.approx(
        0.5 * float(normal_mixture_boundary([100.0], alpha=0.05, best_at=200.0)[0]) / 100, rel=1e-12
    )
    mixed = quad(lambda bet: math.exp(bet * 40 - bet**2 * 50 - (bet / look.rho) ** 2 / 2), -3, 3, points=[0.4])[0]
    assert look.e_value == pytest.approx(mixed / (look.rho * math.sqrt(2 * math.pi)), rel=1e-8)


@given(st.floats(-1, 1), st.floats(0.01, 2), st.integers(2, 2000), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_excludes_0_exactly_when_the_e_value_passes_1_over_alpha(mean, deviation, n, alpha):
    look = asymptotic_interval(mean, deviation, n, planned=200, alpha=alpha)

    assert look.interval.low <= mean <= look.interval.high
    assert 0 <= look.p_value <= 1
    if abs(abs(mean) / look.halfwidth - 1) > 1e-9:
        assert (abs(mean) > look.halfwidth) == (look.e_value > 1 / alpha) == (look.p_value < alpha)


def test_the_sequence_agrees_with_its_looks_and_its_p_values():
    values = np.random.default_rng(5).normal(0.15, 0.5, 300)
    found = asymptotic_sequence(values, planned=200, intersect=False)
    p_values = asymptotic_p_values(values, planned=200)

    for n in (30, 31, 150, 300):
        look = asymptotic_interval(float(values[:n].mean()), float(values[:n].std(ddof=1)), n, planned=200)
        assert (found.lower[n - 1], found.upper[n - 1]) == pytest.approx((look.interval.low, look.interval.high))
    assert np.isinf(found.lower[:29]).all()
    assert (p_values[:29] == 1).all()
    assert (np.diff(p_values) <= 0).all()
    assert found.first_exclusion(0.0) == int((p_values < 0.05).argmax()) + 1 > 30


def test_values_that_have_not_varied_yet_exclude_nothing():
    values = [0.1] * 100 + [0.2, 0.3, 0.1]

    found = asymptotic_sequence(values, planned=100)

    assert np.isinf(found.upper[:100]).all()
    assert np.isfinite(found.upper[100:]).all()
    assert (asymptotic_p_values(values, planned=100)[:100] == 1).all()


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30), st.floats(-1e6, 1e6))
def test_running_deviations_are_those_of_the_values_so_far(values, shift):
    expected = [np.std(values[:n], ddof=1) for n in range(2, len(values) + 1)]

    assert running_deviation(np.array(values))[1:] == pytest.approx(expected, abs=1e-4, rel=1e-5)
    assert running_deviation(np.array(values) + shift)[1:] == pytest.approx(expected, abs=1e-3, rel=1e-4)


def test_wrong_input_is_refused_with_its_count():
    with pytest.raises(ValueError, match="1 of 2 values are neither 0 nor 1"):
        bernoulli_sequence([0.5, 1.0], planned=10)
    with pytest.raises(ValueError, match="at most n=3"):
        bernoulli_interval(4, 3, planned=10)
    with pytest.raises(ValueError, match="1 of 2 values lie outside"):
        empirical_bernstein_sequence([0.5, 1.5])
    with pytest.raises(ValueError, match="1 are"):
        normal_mixture_boundary([-1.0, 1.0], alpha=0.05, best_at=1.0)
    with pytest.raises(ValueError, match="not 0"):
        gamma_exponential_boundary([1.0], alpha=0.05, best_at=1.0, scale=0)
    with pytest.raises(ValueError, match="ratio > 1"):
        stitched_boundary([1.0], alpha=0.05, starts_at=1.0, ratio=1.0)
    with pytest.raises(ValueError, match="1 of 3 values are NaN"):
        asymptotic_sequence([0.0, math.nan, 1.0], planned=10)
    with pytest.raises(ValueError, match="positive deviation"):
        asymptotic_interval(0.0, 0.0, 10, planned=10)
    with pytest.raises(ValueError, match="planned"):
        asymptotic_interval(0.0, 1.0, 10, planned=0)
    with pytest.raises(NotEnoughData, match="1 value"):
        asymptotic_sequence([1.0], planned=10)
    with pytest.raises(NotEnoughData, match="0 values"):
        hoeffding_sequence([])


def test_the_normal_boundary_is_crossed_by_gaussian_walks_in_at_most_alpha_of_them():
    """Not a bound on paper only: 4,000 walks of 2,000 steps cross in nearly 5 %, and never in more."""
    sums = np.cumsum(np.random.default_rng(1).standard_normal((4000, 2000)), axis=1)
    crossed = (np.abs(sums) > normal_mixture_boundary(np.arange(1.0, 2001), alpha=0.05, best_at=200.0)).any(1).mean()

    assert 0.02 < crossed < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 4000)
