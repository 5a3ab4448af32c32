"""Single methods at their edges, and against arithmetic done another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_crucible.stats import (
    clustered_mean,
    count_discordant,
    detectable_mean,
    detectable_paired_proportions,
    quantile_bound,
    quantile_interval,
    samples_for_margin,
    samples_for_paired_proportions,
    samples_for_zero,
    samples_to_prove_proportion,
    tango_interval,
    tango_p_value,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.planning.paired_proportions import power_paired_proportions
from pytest_crucible.stats.proportions.paired import tango_statistic

RNG = np.random.default_rng(7)


# -- proportions --------------------------------------------------------------------------------------------------


def test_tango_at_the_corners():
    assert (tango_interval(0, 0, 0).low, tango_interval(0, 0, 0).high) == (-1.0, 1.0)
    assert tango_interval(8, 0, 8).high == 1.0
    assert tango_interval(0, 8, 8).low == -1.0
    assert tango_statistic(8, 0, 8, 1.0) == 0.0
    assert tango_statistic(7, 0, 8, 1.0) == -math.inf
    assert tango_p_value(7, 0, 8, difference=1.0) == 0.0
    with pytest.raises(ValueError, match="between -1 and 1"):
        tango_statistic(1, 1, 8, 1.5)
    with pytest.raises(ValueError, match="gained=5, lost=4"):
        tango_interval(5, 4, 8)


def test_discordance_is_counted_only_for_zeros_and_ones():
    with pytest.raises(ValueError, match="1 of 6 values are neither 0 nor 1"):
        count_discordant([1, 0.5, 0], [1, 1, 0])


# -- means --------------------------------------------------------------------------------------------------------


# -- clusters -----------------------------------------------------------------------------------------------------


@given(st.data())
def test_the_closed_form_is_the_matrix_formula(data):
    """CR2 and Satterthwaite from their definition: A_g = (I - H_gg)^(-1/2), and the matrix of the quadratic form."""
    sizes = np.array(data.draw(st.lists(st.integers(1, 7), min_size=5, max_size=9)))
    codes = np.repeat(np.arange(sizes.size), sizes)
    values, n = np.random.default_rng(int(sizes.sum())).normal(size=codes.size), codes.size
    hat = np.full((n, n), 1 / n)
    contrasts = []
    for cluster in range(sizes.size):
        inside = codes == cluster
        eigenvalues, vectors = np.linalg.eigh(np.eye(inside.sum()) - hat[np.ix_(inside, inside)])
        adjusted = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        contrasts.append(adjusted.sum(axis=0) @ (np.eye(n) - hat)[inside] / n)
    matrix = np.array(contrasts)
    gram = matrix @ matrix.T

    mean = clustered_mean(values, codes)

    assert mean.se == pytest.approx(math.sqrt(((matrix @ values) ** 2).sum()), rel=1e-9)
    assert mean.dof == pytest.approx(np.trace(gram) ** 2 / (gram * gram).sum(), rel=1e-9)


# -- quantiles ----------------------------------------------------------------------------------------------------


def test_a_quantile_outside_the_sample_is_unknown():
    values = RNG.exponential(size=10)

    assert quantile_interval(values, 0.95).high == math.inf
    assert quantile_interval(values, 0.05).low == -math.inf
    assert quantile_bound(values, 0.5, alpha=0.05, side="lower") == np.sort(values)[1]
    with pytest.raises(NotEnoughData, match="no values"):
        quantile_interval([], 0.5)


# -- power --------------------------------------------------------------------------------------------------------


@given(st.integers(5, 5000), st.floats(0.01, 1), st.sampled_from([0.01, 0.05]), st.sampled_from([0.3, 0.8, 0.95]))
@example(5, 1.0, 0.01, 0.95)
def test_the_detectable_difference_has_the_power_it_is_named_for(n, discordance, alpha, power):
    difference = detectable_paired_proportions(n, discordance, alpha=alpha, power=power)

    if difference is None:
        assert power_paired_proportions(n, discordance * 0.999999, discordance, alpha=alpha) < power
    elif difference < discordance * (1 - 1e-9):
        assert power_paired_proportions(n, difference, discordance, alpha=alpha) == pytest.approx(power, abs=1e-6)
        needed = samples_for_paired_proportions(difference, discordance, alpha=alpha, power=power)
        assert needed == pytest.approx(n, abs=1)


def test_detectable_differences_in_percentage_points():
    """Connor 1987 at 80 % power and 5 %."""
    text = [[round(100 * detectable_paired_proportions(n, d), 1) for d in (0.1, 0.2, 0.3)] for n in (100, 200, 1000)]

    assert text == [[8.8, 12.4, 15.2], [6.2, 8.8, 10.8], [2.8, 4.0, 4.8]]
    assert detectable_paired_proportions(30, 0.2) is None
    assert detectable_paired_proportions(30, 0.0) is None


def test_detectable_means_in_standard_deviations():
    text = [round(detectable_mean(n, 1.0), 3) for n in (10, 30, 50, 100, 200, 500, 1000)]

    assert text == [0.996, 0.529, 0.404, 0.283, 0.199, 0.126, 0.089]
    assert detectable_mean(50, 0.2) == pytest.approx(0.2 * detectable_mean(50, 1.0))
    assert detectable_mean(50, 0.0) is None
    with pytest.raises(NotEnoughData, match="1 value"):
        detectable_mean(1, 1.0)


def test_samples_that_prove_a_rate():
    assert samples_to_prove_proportion(0.97, 0.95) == 624
    assert 2700 <= samples_to_prove_proportion(0.96, 0.95) <= 2800
    assert samples_to_prove_proportion(0.97, 0.95, power=0.5) < 400
    assert samples_to_prove_proportion(0.0, 0.05, side="upper") == samples_for_zero(0.05) == 59


def test_samples_for_a_margin_by_the_formula():
    """((1.644854 + 0.841621) * 0.4 / 0.05)^2 = 395.7."""
    assert samples_for_margin(0.05, 0.4) == 396
    assert samples_for_margin(0.05, 0.4, difference=0.05) == 99


@pytest.mark.parametrize(
    "ask",
    [
        lambda: samples_for_paired_proportions(0.3, 0.2),
        lambda: detectable_paired_proportions(100, 1.2),
        lambda: detectable_mean(50, -1.0),
        lambda: samples_for_margin(0.05, math.nan),
        lambda: samples_to_prove_proportion(1.2, 0.5),
        lambda: samples_for_zero(0.0),
    ],
)
def test_impossible_questions_are_refused(ask):
    with pytest.raises(ValueError, match=r"\d|nan"):
        ask()
