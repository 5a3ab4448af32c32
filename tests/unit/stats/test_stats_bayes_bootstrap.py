"""The Bayesian bootstrap: exact moments, and draws that have them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.bayes.bootstrap_posterior import bayesian_bootstrap, bayesian_bootstrap_moments
from pytest_crucible.stats.interval import NotEnoughData

VALUES = st.lists(st.floats(-100, 100).map(lambda value: round(value, 2)), min_size=2, max_size=20)


def test_the_moments_of_two_values_are_those_of_a_uniform():
    """One weight is uniform on [0, 1], so the mean is uniform between the two values."""
    moments = bayesian_bootstrap_moments([2.0, 5.0])

    assert moments.mean == 3.5
    assert moments.variance == pytest.approx(9 / 12)


def test_ones_and_zeros_are_a_beta_posterior():
    """k ones and n - k zeros: the mean is Beta(k, n - k)."""
    values = [1.0] * 8 + [0.0] * 2
    posterior = bayesian_bootstrap(values, draws=40_000)

    assert posterior.variance == pytest.approx(8 * 2 / (10**2 * 11))
    assert posterior.interval.low == pytest.approx(0.5175, abs=0.01)
    assert posterior.interval.high == pytest.approx(0.9719, abs=0.01)


@given(VALUES, st.floats(-10, 10))
def test_moments_follow_a_shift_and_a_permutation(values, shift):
    moments, moved = bayesian_bootstrap_moments(values), bayesian_bootstrap_moments([v + shift for v in values])

    assert moved.mean == pytest.approx(moments.mean + shift, abs=1e-9)
    assert moved.variance == pytest.approx(moments.variance, rel=1e-6, abs=1e-12)
    assert bayesian_bootstrap_moments(values[::-1]).variance == pytest.approx(moments.variance, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("grid", [False, True])
def test_draws_have_the_exact_moments(grid):
    values = np.random.default_rng(2).random(60)
    values = np.round(values, 1) if grid else values
    posterior = bayesian_bootstrap(values - 0.5, draws=20_000, margin=0.05)
    losses = posterior.losses

    assert losses[1] - losses[0] == pytest.approx(posterior.mean, abs=5 * math.sqrt(posterior.variance / 20_000))
    middle = (posterior.interval.low + posterior.interval.high) / 2
    assert middle == pytest.approx(posterior.mean, abs=0.01)
    width = posterior.interval.high - posterior.interval.low
    assert width == pytest.approx(2 * 1.96 * math.sqrt(posterior.variance), rel=0.05)
    assert 0 < posterior.probability_equivalent < 1


def test_a_seed_gives_the_same_draws_and_is_recorded():
    values = [0.2, -0.1, 0.4, 0.3, -0.2]

    assert bayesian_bootstrap(values, rng=3) == bayesian_bootstrap(values, rng=3)
    assert bayesian_bootstrap(values, rng=3).seed == 3
    assert bayesian_bootstrap(values, rng=np.random.default_rng(3)).seed is None
    assert (
        bayesian_bootstrap(values, rng=3).interval == bayesian_bootstrap(values, rng=np.random.default_rng(3)).interval
    )
    assert bayesian_bootstrap(values, rng=3).interval != bayesian_bootstrap(values, rng=4).interval


def test_pairs_are_their_differences():
    candidate, baseline = [0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.9, 0.4]
    differences = [0.4, 0.1, -0.1, 0.2]

    paired, single = bayesian_bootstrap(candidate, baseline), bayesian_bootstrap(differences)

    assert paired.mean == pytest.approx(single.mean)
    assert paired.probability_positive == single.probability_positive
    with pytest.raises(ValueError, match="4 candidate values, 3 baseline values"):
        bayesian_bootstrap(candidate, baseline[:3])


def test_equal_values_say_nothing_about_what_was_not_seen():
    posterior = bayesian_bootstrap([0.3] * 5)

    assert posterior.status == "degenerate"
    assert posterior.interval is None
    assert posterior.probability_positive is None
    assert "all 5 values are equal" in posterior.note


def test_draws_in_parts_are_all_there():
    values = np.random.default_rng(8).normal(size=3000)

    assert bayesian_bootstrap(values, draws=801).draws == 801
    assert bayesian_bootstrap(values, draws=801).probability_positive * 801 == pytest.approx(
        round(bayesian_bootstrap(values, draws=801).probability_positive * 801)
    )


def test_too_few_or_strange_values_are_refused():
    for few in ([], [0.5]):
        with pytest.raises(NotEnoughData, match=f"^{len(few)} value"):
            bayesian_bootstrap(few)
        with pytest.raises(NotEnoughData, match=f"^{len(few)} value"):
            bayesian_bootstrap_moments(few)
    with pytest.raises(ValueError, match="1 of 2 values are NaN"):
        bayesian_bootstrap_moments([0.5, math.nan])
    with pytest.raises(ValueError, match="not 0 and"):
        bayesian_bootstrap([0.5, 0.6], draws=0)
