"""Posterior answers about rates, against exact fractions, closed forms and each other."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.special import betainc

from pytest_crucible.stats.bayes.beta_binomial import (
    beta_binomial,
    expected_losses,
    probability_equivalent,
    probability_rate_within,
    probability_superior,
)
from pytest_crucible.stats.bayes.hierarchical import task_rates
from pytest_crucible.stats.bayes.paired_rates import paired_posterior
from pytest_crucible.stats.interval import NotEnoughData

PRIORS = st.sampled_from([(1.0, 1.0), (0.5, 0.5), (2.0, 5.0), (0.1, 3.0)])


@st.composite
def rates(draw, largest=300):
    n = draw(st.integers(0, largest))
    return draw(st.integers(0, n)), n


@st.composite
def tables(draw, largest=200):
    n = draw(st.integers(0, largest))
    gained = draw(st.integers(0, n))
    return gained, draw(st.integers(0, n - gained)), n


def exact_superiority(k1, n1, k2, n2):
    """P(p1 > p2) under uniform priors as a fraction: a sum over i < a1 of ratios of beta functions."""
    a1, b1, a2, b2 = k1 + 1, n1 - k1 + 1, k2 + 1, n2 - k2 + 1

    def beta(a, b):
        return Fraction(math.factorial(a - 1) * math.factorial(b - 1), math.factorial(a + b - 1))

    return sum(beta(a2 + i, b1 + b2) / ((b1 + i) * beta(1 + i, b1) * beta(a2, b2)) for i in range(a1))


# -- one rate -----------------------------------------------------------------------------------------------------


def test_nothing_seen_leaves_the_prior():
    posterior = beta_binomial(0, 0)

    assert (posterior.mean, posterior.interval.low, posterior.interval.high) == pytest.approx((0.5, 0.025, 0.975))


@given(rates(), PRIORS, st.sampled_from([0.5, 0.9, 0.99]))
def test_both_intervals_hold_their_belief_and_the_densest_is_the_shorter(given_rate, prior, level):
    tails = beta_binomial(*given_rate, prior=prior, level=level)
    within = probability_rate_within(*given_rate, tails.interval.low, tails.interval.high, prior=prior)
    assert within == pytest.approx(level, rel=1e-9)
    if tails.a < 1 and tails.b < 1:
        return
    densest = beta_binomial(*given_rate, prior=prior, level=level, region="highest-density")
    within = probability_rate_within(*given_rate, densest.interval.low, densest.interval.high, prior=prior)

    assert within == pytest.approx(level, rel=1e-9)
    assert 0 <= densest.interval.low < densest.interval.high <= 1
    assert densest.interval.high - densest.interval.low <= (tails.interval.high - tails.interval.low) * (1 + 1e-9)


def test_without_a_success_the_densest_interval_starts_at_zero():
    """Beta(1, 11): its upper end is 1 - 0.05^(1/11)."""
    interval = beta_binomial(0, 10, region="highest-density").interval

    assert interval.low == 0.0
    assert interval.high == pytest.approx(1 - 0.05 ** (1 / 11), rel=1e-12)
    assert beta_binomial(10, 10, region="highest-density").interval.low == pytest.approx(0.05 ** (1 / 11), rel=1e-12)


def test_a_posterior_without_a_peak_has_no_densest_interval():
    with pytest.raises(ValueError, match=r"Beta\(0.5, 0.5\) is highest at both ends"):
        beta_binomial(0, 0, prior=(0.5, 0.5), region="highest-density")


# -- two independent rates ----------------------------------------------------------------------------------------


@given(rates(25), rates(25))
def test_superiority_is_the_exact_fraction(first, second):
    exact = exact_superiority(*first, *second)

    assert probability_superior(*first, *second) == pytest.approx(float(exact), rel=1e-12)


@given(rates(), rates(), PRIORS)
def test_one_of_the_two_is_larger(first, second, prior):
    forwards = probability_superior(*first, *second, prior=prior)
    backwards = probability_superior(*second, *first, prior=prior)

    assert 0 <= forwards <= 1
    assert forwards + backwards == pytest.approx(1, abs=1e-11)
    assert probability_superior(*first, *first, prior=prior) == pytest.approx(0.5, abs=1e-11)


@given(rates(), rates(), PRIORS)
def test_the_losses_differ_by_the_difference_of_the_means(first, second, prior):
    losses = expected_losses(*first, *second, prior=prior)
    swapped = expected_losses(*second, *first, prior=prior)
    means = [beta_binomial(*one, prior=prior).mean for one in (first, second)]

    assert min(losses) >= 0
    assert losses[1] - losses[0] == pytest.approx(means[0] - means[1], abs=1e-12)
    assert losses == pytest.approx(swapped[::-1], rel=1e-9, abs=1e-13)


def test_the_loss_is_the_closed_form_with_beta_functions():
    """E max(p2 - p1, 0) = m2 P(p2' > p1) - m1 P(p2 > p1'), where p' has one success more."""
    (k1, n1), (k2, n2) = (17, 20), (12, 20)
    mean1, mean2 = Fraction(k1 + 1, n1 + 2), Fraction(k2 + 1, n2 + 2)
    closed = mean2 * exact_superiority(k2 + 1, n2 + 1, k1, n1) - mean1 * exact_superiority(k2, n2, k1 + 1, n1 + 1)

    assert expected_losses(k1, n1, k2, n2)[0] == pytest.approx(float(closed), rel=1e-12)


def test_a_hundred_thousand_samples_keep_their_digits():
    """Two close rates at n = 1e5 are normal to 1e-5, and both directions add up to 1 exactly."""
    first, second = (80_000, 100_000), (79_900, 100_000)
    deviation = math.sqrt(0.8 * 0.2 / 100_000 + 0.799 * 0.201 / 100_000)
    normal = 0.5 * math.erfc(-0.001 / deviation / math.sqrt(2))

    assert probability_superior(*first, *second) == pytest.approx(normal, abs=1e-4)
    assert probability_superior(*first, *second) + probability_superior(*second, *first) == pytest.approx(1, abs=1e-13)


def test_a_wide_and_a_narrow_posterior_meet():
    """The narrow one is a point as seen from the wide one: P(p1 > p2) is near the tail of the wide one at its mean."""
    wide, narrow = (3, 10), (300_000, 1_000_000)

    assert probability_superior(*wide, *narrow) == pytest.approx(1 - betainc(4, 8, 0.3), abs=1e-5)


@settings(max_examples=choose_examples(40))
@given(rates(), rates(), PRIORS, st.floats(0, 1))
def test_equivalence_is_symmetric_grows_with_the_margin_and_ends_at_one(first, second, prior, margin):
    here = probability_equivalent(*first, *second, margin=margin, prior=prior)

    assert -1e-15 <= here <= 1 + 1e-9
    assert here == pytest.approx(probability_equivalent(*second, *first, margin=margin, prior=prior), abs=1e-8)
    assert here <= probability_equivalent(*first, *second, margin=min(1, margin + 0.1), prior=prior) + 1e-9
    assert probability_equivalent(*first, *second, margin=1, prior=prior) == pytest.approx(1, abs=1e-12)


def test_equivalence_of_two_unknown_rates_is_a_strip_of_the_unit_square():
    assert probability_equivalent(0, 0, 0, 0, margin=0.05) == pytest.approx(1 - 0.95**2, rel=1e-12)


def test_strange_rates_are_refused():
    with pytest.raises(ValueError, match="at most n=4"):
        beta_binomial(5, 4)
    with pytest.raises(ValueError, match="two positive parameters"):
        probability_superior(1, 2, 1, 2, prior=(0.0, 1.0))
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        probability_equivalent(1, 2, 1, 2, margin=1.5)
    with pytest.raises(ValueError, match="low end"):
        probability_rate_within(1, 2, 0.6, 0.4)


# -- paired rates -------------------------------------------------------------------------------------------------


@settings(max_examples=choose_examples(30))
@given(tables())
def test_swapping_the_arms_turns_the_paired_posterior_around(table):
    gained, lost, n = table
    here, there = paired_posterior(gained, lost, n, margin=0.1), paired_posterior(lost, gained, n, margin=0.1)

    assert here.mean == pytest.approx(-there.mean, abs=1e-15)
    assert (here.interval.low, here.interval.high) == (-there.interval.high, -there.interval.low)
    assert here.probability_positive + there.probability_positive == pytest.approx(1, abs=1e-14)
    assert here.probability_equivalent == pytest.approx(there.probability_equivalent, abs=1e-12)
    assert here.losses == there.losses[::-1]


@settings(max_examples=choose_examples(30))
@given(tables())
def test_the_paired_posterior_agrees_with_itself(table):
    posterior = paired_posterior(*table, margin=0.1)

    assert -1 <= posterior.interval.low < posterior.interval.high <= 1
    assert posterior.losses[1] - posterior.losses[0] == pytest.approx(posterior.mean, abs=1e-13)
    if posterior.interval.low > 0:
        assert posterior.probability_positive >= 0.975 - 1e-9
    if posterior.interval.high < 0:
        assert posterior.probability_positive <= 0.025 + 1e-9
    assert 0 <= posterior.probability_equivalent <= 1 + 1e-12


@pytest.mark.parametrize("table", [(12, 2, 50), (5, 0, 5), (0, 0, 10), (3, 40, 400)])
def test_the_paired_posterior_is_that_of_dirichlet_draws(table):
    gained, lost, n = table
    draws = np.random.default_rng(11).dirichlet([gained + 0.5, lost + 0.5, n - gained - lost + 1], 200_000)
    differences = draws[:, 0] - draws[:, 1]

    posterior = paired_posterior(gained, lost, n, margin=0.05)

    assert posterior.mean == pytest.approx(differences.mean(), abs=0.002)
    assert posterior.probability_positive == pytest.approx((differences > 0).mean(), abs=0.005)
    assert posterior.probability_equivalent == pytest.approx((abs(differences) <= 0.05).mean(), abs=0.005)
    assert np.mean(differences < posterior.interval.low) == pytest.approx(0.025, abs=0.002)
    assert np.mean(differences > posterior.interval.high) == pytest.approx(0.025, abs=0.002)
    assert posterior.losses == pytest.approx(
        (np.maximum(-differences, 0).mean(), np.maximum(differences, 0).mean()), abs=0.002
    )


def test_concordant_pairs_do_not_change_who_is_better():
    assert paired_posterior(12, 2, 14).probability_positive == paired_posterior(12, 2, 500).probability_positive
    assert paired_posterior(3, 3, 10).probability_equivalent is None


def test_strange_paired_tables_are_refused():
    with pytest.raises(ValueError, match="gained=5, lost=4"):
        paired_posterior(5, 4, 8)
    with pytest.raises(ValueError, match="prior must be positive, not 0"):
        paired_posterior(1, 1, 8, prior=0)
    with pytest.raises(ValueError, match=r"not -0\.1"):
        paired_posterior(1, 1, 8, margin=-0.1)


# -- many tasks ---------------------------------------------------------------------------------------------------


@settings(max_examples=choose_examples(12))
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=5))
def test_task_rates_lie_inside_their_intervals_and_follow_the_failures(counts):
    hits, trials = [k for k, _ in counts], [k + more for k, more in counts]
    if sum(n > 0 for n in trials) < 2:
        with pytest.raises(NotEnoughData, match="the common rate needs at least 2"):
            task_rates(hits, trials)
        return
    result = task_rates(hits, trials)
    mirrored = task_rates([n - k for k, n in zip(hits, trials, strict=True)], trials)

    assert result.rates == pytest.approx([1 - rate for rate in mirrored.rates], abs=1e-6)
    assert all(0 <= i.low < rate < i.high <= 1 for i, rate in zip(result.intervals, result.rates, strict=True))
    assert result.mean_interval.low < result.mean < result.mean_interval.high


def test_rates_are_drawn_towards_each_other_and_small_tasks_more_so():
    result = task_rates([9, 5, 10, 0, 90], [10, 10, 10, 1, 100])
    observed = [0.9, 0.5, 1.0, 0.0, 0.9]
    pulls = [(rate - seen) / (result.mean - seen) for rate, seen in zip(result.rates, observed, strict=True)]

    assert all(0 < pull < 1 for pull in pulls)
    assert max(pulls) == pulls[3]
    assert min(pulls) == pulls[4]


def test_shrunken_rates_are_nearer_to_the_truth():
    rng = np.random.default_rng(3)
    truth = rng.beta(16, 4, 40)
    hits = rng.binomial(10, truth)

    shrunken = np.array(task_rates(hits.tolist(), [10] * 40).rates)

    assert np.mean((shrunken - truth) ** 2) < 0.7 * np.mean((hits / 10 - truth) ** 2)


def test_two_tasks_are_the_double_integral():
    """A plain Riemann sum over mu and the shrinkage B, with phi = n (1 - B) / B."""
    from scipy.special import betaln

    mu = ((np.arange(400) + 0.5) / 400)[:, None]
    phi = 10 * (1 / ((np.arange(400) + 0.5) / 400) - 1)[None, :]
    a, b = mu * phi, (1 - mu) * phi
    weights = np.exp(betaln(a + 9, b + 1) + betaln(a + 4, b + 6) - 2 * betaln(a, b))
    first, second = (float((weights * (k + a) / (10 + phi)).sum() / weights.sum()) for k in (9, 4))

    assert task_rates([9, 4], [10, 10]).rates == pytest.approx((first, second), abs=2e-4)


def test_tasks_without_their_trials_are_refused():
    with pytest.raises(ValueError, match="every task needs successes and trials, not 2 successes and 1 trials"):
        task_rates([1, 2], [3])
