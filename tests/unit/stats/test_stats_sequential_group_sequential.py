"""Planned looks: published boundaries, an independent integral and simulated walks; and the price of looking."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.stats import multivariate_normal, norm

from pytest_crucible.stats.sequential.betting import betting_sequence
from pytest_crucible.stats.sequential.group_sequential import plan_looks, price_of_looks, stopping_probabilities
from pytest_crucible.stats.sequential.looking_price import price_of_looking

PUBLISHED = {
    "obrien-fleming": (4.877, 3.357, 2.680, 2.290, 2.031),
    "pocock": (2.438, 2.427, 2.410, 2.397, 2.386),
}
FRACTIONS = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5).map(
    lambda found: sorted({round(t, 2) for t in found})
)


@pytest.mark.parametrize("spending", PUBLISHED)
def test_five_looks_have_the_published_boundaries(spending):
    looks = plan_looks(5, spending=spending)

    assert [round(z, 3) for z in looks.boundaries] == list(PUBLISHED[spending])
    assert looks.fractions == (0.2, 0.4, 0.6, 0.8, 1.0)
    assert looks.p_values == pytest.approx([2 * norm.sf(z) for z in looks.boundaries], rel=1e-12)


def test_one_look_is_the_fixed_test():
    for spending in PUBLISHED:
        assert plan_looks(1, spending=spending).boundaries == pytest.approx([1.959963984540054], rel=1e-12)
        assert plan_looks(1, spending=spending, two_sided=False).boundaries == pytest.approx(
            [1.6448536269514722], rel=1e-12
        )


@pytest.mark.parametrize("spending", PUBLISHED)
@pytest.mark.parametrize("fractions", [(0.5, 1.0), (0.3, 0.45, 1.0)])
def test_the_size_is_alpha_by_another_integral(spending, fractions):
    """scipy's multivariate normal over the box where no look crosses."""
    looks = plan_looks(fractions, spending=spending)
    times, edges = np.array(fractions), np.array(looks.boundaries)
    covariance = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))

    inside = multivariate_normal(np.zeros(times.size), covariance).cdf(edges, lower_limit=-edges)

    assert 1 - inside == pytest.approx(0.05, abs=2e-5)


def test_chances_to_stop_are_those_of_simulated_walks():
    looks, runs, drift = plan_looks(4, spending="pocock"), 100_000, 2.0
    steps = np.random.default_rng(1).standard_normal((runs, 4)) * 0.5 + drift / 4
    z = np.cumsum(steps, axis=1) / np.sqrt(looks.fractions)
    crossed = np.logical_or.accumulate(np.abs(z) >= looks.boundaries, axis=1).mean(0)

    chances = stopping_probabilities(looks, drift=drift)

    assert chances == pytest.approx(crossed, abs=4 * math.sqrt(0.25 / runs))


@settings(max_examples=choose_examples(25), deadline=None)
@given(FRACTIONS, st.sampled_from(list(PUBLISHED)), st.booleans(), st.sampled_from([0.01, 0.05, 0.2]))
def test_all_looks_together_spend_what_they_may(fractions, spending, two_sided, alpha):
    looks = plan_looks(fractions, spending=spending, two_sided=two_sided, alpha=alpha)
    chances = stopping_probabilities(looks)

    assert chances == pytest.approx(looks.spent, abs=1e-9)
    assert chances[-1] <= alpha + 1e-9
    if fractions[-1] == 1.0:
        assert chances[-1] == pytest.approx(alpha, abs=1e-9)


def test_boundaries_do_not_depend_on_later_looks():
    """What makes it right to ask again when the looks come at other times than planned."""
    early, other = plan_looks([0.2, 0.5, 1.0]).boundaries, plan_looks([0.2, 0.5, 0.7, 0.9]).boundaries

    assert early[:2] == other[:2]


def test_the_first_crossing_stops():
    looks = plan_looks(3)

    assert looks.first_crossing([1.0, -2.6]) == 2
    assert looks.first_crossing([1.0, 2.4, 2.1]) == 3
    assert looks.first_crossing([1.0, 2.0]) is None
    assert plan_looks(3, two_sided=False).first_crossing([-9.0, -9.0, -9.0]) is None
    assert str(looks).startswith("obrien-fleming, 3 looks, alpha 0.05; stop at p <= 33%: 0.0002")


def test_the_price_of_five_looks_is_small_for_obrien_fleming_and_large_for_pocock():
    """At that sample size the power is the one asked for, by its own integral."""
    for spending, at_most in (("obrien-fleming", 1.03), ("pocock", 1.22)):
        looks = plan_looks(5, spending=spending)
        most, expected = price_of_looks(looks, power=0.9)
        drift = (norm.ppf(0.9) + norm.ppf(0.975)) * math.sqrt(most)

        assert stopping_probabilities(looks, drift=drift)[-1] == pytest.approx(0.9, abs=1e-9)
        assert 1 < most < at_most
        assert 0.6 < expected < 0.85
    assert price_of_looks(plan_looks(1)) == pytest.approx((1.0, 1.0), abs=1e-5)


def test_wrong_plans_are_refused():
    with pytest.raises(ValueError, match="not 0"):
        plan_looks(0)
    with pytest.raises(ValueError, match=r"rise within \(0, 1\]"):
        plan_looks([0.5, 0.5, 1.0])
    with pytest.raises(ValueError, match=r"rise within \(0, 1\]"):
        plan_looks([0.5, 1.5])
    with pytest.raises(ValueError, match="'pocock'"):
        plan_looks(3, spending="linear")
    with pytest.raises(ValueError, match="3 z values for 2"):
        plan_looks(2).first_crossing([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"power must be above alpha, not 0\.05 at alpha 0\.05"):
        price_of_looks(plan_looks(2), power=0.05)


# -- the price of looking whenever one likes ----------------------------------------------------------------------


def test_the_fixed_n_is_that_of_a_t_test():
    """R: power.t.test(delta=0.1, sd=0.5, power=0.8, type="one.sample") gives n = 198.15; with delta=1, 4.22."""
    assert price_of_looking(0.1, 0.5, bounds=(-1, 1), runs=1).fixed_n == 199
    assert price_of_looking(-0.1, 0.05, bounds=(-1, 1), runs=1).fixed_n == 5


@pytest.mark.parametrize("method", ["betting", "asymptotic"])
def test_a_sequence_costs_more_than_a_fixed_n_of_the_same_power(method):
    price = price_of_looking(0.1, 0.5, bounds=(-1, 1), runs=200, method=method)

    assert price.median_n < price.n_for_power < price.late_n
    assert price.fixed_n < price.n_for_power < 3 * price.fixed_n
    assert price.stopped_by_fixed_n < 0.8
    assert price == price_of_looking(0.1, 0.5, bounds=(-1, 1), runs=200, method=method)
    assert f"{method} sequence: median {price.median_n}, 90 % {price.late_n}" in str(price)


def test_the_simulated_stops_are_those_of_the_sequence():
    """At the largest deviation the values are bits, which the same seed gives again."""
    price = price_of_looking(0.3, 0.4, bounds=(0, 1), null=0.5, runs=1, seed=4)
    bits = (np.random.default_rng(4).random(price.longest_n) < 0.8).astype(float)

    assert price.median_n == price.late_n == betting_sequence(bits).first_exclusion(0.5)


def test_sequences_that_never_stop_are_none():
    price = price_of_looking(0.05, 0.5, bounds=(-1, 1), runs=3, alpha=1e-6, power=1e-5)

    assert (price.median_n, price.late_n, price.stopped_by_fixed_n) == (None, None, 0.0)
    assert f"median more than {price.longest_n}" in str(price)


def test_impossible_designs_are_refused():
    with pytest.raises(ValueError, match=r"at most 0\.994987"):
        price_of_looking(0.1, 1.2, bounds=(-1, 1))
    with pytest.raises(ValueError, match="other than 0"):
        price_of_looking(0.0, 0.5, bounds=(-1, 1))
    with pytest.raises(ValueError, match="impossible"):
        price_of_looking(1.5, 0.5, bounds=(-1, 1))
    with pytest.raises(ValueError, match="finite bounds"):
        price_of_looking(0.5, 0.5, bounds=(-1, math.inf))
    with pytest.raises(ValueError, match="'asymptotic'"):
        price_of_looking(0.5, 0.5, bounds=(-1, 1), method="bayes")
    with pytest.raises(ValueError, match="not 0"):
        price_of_looking(0.5, 0.5, bounds=(-1, 1), runs=0)
