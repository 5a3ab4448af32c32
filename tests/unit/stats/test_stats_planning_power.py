"""Power, samples and smallest detectable effects: against integration, enumeration and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.special import gammaln, ndtr

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.planning.designs import (
    clusters_for_mean,
    design_effect,
    power_anova,
    samples_for_anova,
    samples_for_margin,
    samples_for_proportions,
)
from pytest_crucible.stats.planning.roots import SampleSize, rising_root, round_up, smallest_integer
from pytest_crucible.stats.planning.t_tests import (
    detectable_mean,
    detectable_t,
    noncentral_t_above,
    power_t,
    samples_for_t,
    shifted_t_power,
)

ALPHAS = st.sampled_from([0.001, 0.01, 0.05, 0.2])
POWERS = st.sampled_from([0.5, 0.8, 0.95])
SIDES = st.sampled_from(["two-sided", "greater"])
DESIGNS = st.sampled_from(["one-sample", "paired", "two-sample"])


def integral(function, low, high, panels=400):
    """Gauss-Legendre with 20 points in each panel."""
    points, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, panels + 1)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return float((half * weights * function(middle + half * points)).sum())


# -- noncentral laws ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dof", [1, 2.5, 10, 100, 3000])
@pytest.mark.parametrize("shift", [-6.0, 0.0, 0.5, 3.0, 20.0, 40.0])
@pytest.mark.parametrize("t", [-2.0, 0.5, 2.2, 30.0])
def test_the_noncentral_t_is_its_integral_over_the_spread(dof, shift, t):
    def joint(s):
        log = math.log(2) + dof / 2 * math.log(dof / 2) - gammaln(dof / 2) + (dof - 1) * np.log(s) - dof * s * s / 2
        return np.exp(log) * ndtr(shift - t * s)

    spread = 1 / math.sqrt(2 * dof)
    # In the square of s the density at one degree of freedom is smooth at 0.
    expected = integral(
        lambda root: 2 * root * joint(root * root), math.sqrt(max(0, 1 - 10 * spread)), math.sqrt(1 + 10 * spread)
    )

    assert noncentral_t_above(t, dof, shift) == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_far_tails_of_the_noncentral_t_are_neither_nan_nor_negative():
    """scipy's nctdtr(399, 10, -1.966) is NaN."""
    powers = [shifted_t_power(399, shift, 0.05, "two-sided") for shift in np.linspace(0, 200, 81)]

    assert all(0 <= power <= 1 for power in powers)
    assert np.diff(powers).min() >= -1e-15
    assert powers[-1] == pytest.approx(1.0, abs=1e-15)
    assert 0 < noncentral_t_above(2.0, 20, -10.0) < 1e-20


# -- t tests ------------------------------------------------------------------------------------------------------


@given(st.integers(2, 2000), DESIGNS, ALPHAS, SIDES)
def test_power_is_alpha_at_no_effect(n, design, alpha, side):
    assert power_t(n, 0.0, design=design, alpha=alpha, alternative=side) == pytest.approx(alpha, rel=1e-11)


@given(st.floats(0.02, 2), DESIGNS, ALPHAS, POWERS, SIDES)
def test_samples_power_and_effect_invert_each_other(effect, design, alpha, power, side):
    question = {"design": design, "alpha": alpha, "alternative": side}
    needed = samples_for_t(effect, power=power, **question)

    assert needed.power >= power - 1e-9
    assert needed.power == power_t(needed.ceiling, effect, **question)
    if needed.n > 2:
        assert power_t(needed.n, effect, **question) == pytest.approx(power, rel=1e-9)
        assert detectable_t(needed.n, power=power, **question) == pytest.approx(effect, rel=1e-8)


def test_the_effect_on_the_other_side_is_never_found():
    assert samples_for_t(-0.5, alternative="greater") == SampleSize(n=math.inf, ceiling=None, power=None)
    assert samples_for_t(0.0).n == math.inf
    assert samples_for_t(-0.5, alternative="less").ceiling == samples_for_t(0.5, alternative="greater").ceiling
    assert samples_for_t(-0.5).ceiling == 34
    assert power_t(50, -0.5, alternative="greater") < 1e-6
    assert detectable_t(50, alternative="less") == -detectable_t(50, alternative="greater")


def test_an_effect_that_two_values_show_needs_two():
    assert samples_for_t(100.0).ceiling == 2
    assert samples_for_t(100.0, design="two-sample", ratio=0.5).ceiling == 4


def test_unequal_arms_are_planned_by_their_ratio():
    needed = samples_for_t(0.5, design="two-sample", ratio=2.0)

    assert power_t(needed.n, 0.5, design="two-sample", n_baseline=2 * needed.n) == pytest.approx(0.8)


def test_planning_without_data_or_sense_is_refused():
    for ask in (lambda: power_t(1, 0.5), lambda: detectable_t(1), lambda: detectable_mean(1, 1.0)):
        with pytest.raises(NotEnoughData, match=r"^1 value:"):
            ask()
    with pytest.raises(ValueError, match=r"power must be above alpha, not 0\.04 at alpha 0\.05"):
        samples_for_t(0.5, power=0.04)
    with pytest.raises(ValueError, match="finite number, not nan"):
        power_t(10, math.nan)
    with pytest.raises(ValueError, match=r"n_baseline goes with design=.two-sample., not .paired.: leave it out"):
        power_t(10, 0.5, n_baseline=20)


# -- proportions, many arms, clusters, margins ------------------------------------------------------------------------


def test_samples_for_proportions_are_those_of_r():
    """power.prop.test(p1=0.85, p2=0.8, power=0.8) is 905.3658; it leaves out the unlikely tail."""
    assert samples_for_proportions(0.85, 0.8).n == pytest.approx(905.365777964225, rel=1e-5)


def test_samples_for_rates_at_the_ends():
    assert samples_for_proportions(0.5, 0.5).n == math.inf
    assert samples_for_proportions(1.0, 0.0).ceiling == 2
    with pytest.raises(ValueError, match=r"rate must lie between 0 and 1, not 1\.2"):
        samples_for_proportions(1.2, 0.5)


@given(st.floats(0.05, 2), st.integers(2, 20), ALPHAS)
def test_anova_of_two_arms_is_the_t_test(effect, n, alpha):
    """d is 2 f for two arms."""
    assert power_anova(n, 2, effect, alpha=alpha) == pytest.approx(
        power_t(n, 2 * effect, design="two-sample", alpha=alpha), rel=1e-9
    )


@given(st.integers(2, 8), st.floats(0.05, 1), ALPHAS, POWERS)
def test_samples_for_anova_have_the_power(arms, effect, alpha, power):
    needed = samples_for_anova(arms, effect, alpha=alpha, power=power)

    assert power_anova(needed.ceiling, arms, effect, alpha=alpha) >= power - 1e-9
    assert power_anova(max(needed.n, 2), arms, 0.0, alpha=alpha) == pytest.approx(alpha, rel=1e-9)


def test_anova_without_an_effect_or_values_is_refused():
    assert samples_for_anova(3, 0.0).n == math.inf
    with pytest.raises(ValueError, match="at least 2 arms"):
        power_anova(10, 1, 0.2)
    with pytest.raises(NotEnoughData, match=r"^1 value"):
        power_anova(1, 3, 0.2)


@given(st.floats(0.1, 1), st.integers(1, 20), POWERS, SIDES)
def test_clusters_of_one_sample_are_planned_as_samples(effect, size, power, side):
    options = {"power": power, "alternative": side}
    alone = samples_for_t(effect, **options)

    assert clusters_for_mean(1, effect, 0.3, **options).ceiling == alone.ceiling
    assert clusters_for_mean(size, effect, 1.0, **options).n == pytest.approx(alone.n)
    assert clusters_for_mean(size, effect, 0.0, **options).n <= alone.n * (1 + 1e-12)
    assert clusters_for_mean(size, 0.0, 0.0, **options).ceiling is None


def test_a_design_effect_is_that_of_kish():
    assert design_effect(7, 0.0) == 1.0
    assert design_effect(7, 1.0) == 7.0
    assert design_effect(5, 0.1, size_variation=0.5) == pytest.approx(1 + (1.25 * 5 - 1) * 0.1)
    with pytest.raises(ValueError, match="at least 1 sample"):
        design_effect(0, 0.1)
    with pytest.raises(ValueError, match="intraclass correlation"):
        design_effect(5, -0.1)


@given(st.floats(0.01, 0.2), st.floats(0.1, 1), st.floats(-0.005, 0.1), POWERS)
def test_samples_for_a_margin_have_the_power_of_a_one_sided_t_test(margin, deviation, difference, power):
    needed = samples_for_margin(margin, deviation, difference=difference, power=power)

    if needed > 30:
        effect = (margin + difference) / deviation
        assert power_t(needed, effect, alternative="greater") == pytest.approx(power, abs=0.02)


def test_no_samples_prove_a_margin_at_the_true_difference():
    assert samples_for_margin(0.05, 0.4, difference=-0.05) is None
    with pytest.raises(ValueError, match="deviation"):
        samples_for_margin(0.05, -1.0)


# -- roots --------------------------------------------------------------------------------------------------------


@settings(max_examples=choose_examples(50))
@given(st.floats(1e-6, 1e6), st.sampled_from([1, 3, 0.3]))
def test_the_root_is_found_to_the_last_digits(target, exponent):
    root = rising_root(lambda x: x**exponent - target, 0.0)

    assert root**exponent == pytest.approx(target, rel=1e-13)


def test_roots_at_their_ends():
    assert rising_root(lambda x: x + 1, 0.0) == 0.0
    assert rising_root(lambda x: x - 5, 0.0, most=2.0) == 2.0
    assert rising_root(lambda x: x - 2, 0.0, most=2.0) == 2.0
    assert rising_root(lambda x: math.copysign(1, x - 0.3), 0.0) == pytest.approx(0.3, rel=1e-14)
    assert smallest_integer(lambda n: n >= 37, 2) == 37
    assert smallest_integer(lambda n: False, 1) is None
    assert (round_up(2.0000000000001), round_up(2.1), round_up(0.0)) == (2, 3, 1)
