"""Clustered means: sandwich estimators against matrices written out, two arms, and what clusters cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible.stats.means.clustered import clustered_arms, clustered_mean, clustered_p_value
from pytest_crucible.stats.means.repeats import cluster_effect
from pytest_crucible.stats.means.t_tests import student_t, welch_t

RNG = np.random.default_rng(5)
KINDS = ["cr0", "cr1", "cr2", "cr3"]
LABELS = list("aaabbcdddd")
VALUES = RNG.random(10)


@st.composite
def clustered_values(draw: st.DrawFn, least: int = 6):
    sizes = draw(st.lists(st.integers(1, 5), min_size=least, max_size=10))
    n = sum(sizes)
    values = draw(st.lists(st.integers(0, 16).map(lambda value: value / 16), min_size=n, max_size=n))
    return np.array(values), np.repeat(np.arange(len(sizes)), sizes)


def test_singletons_in_two_arms_are_nearly_welch_and_with_equal_sizes_exactly():
    x, y = RNG.random(9), RNG.random(9)
    result = clustered_arms(x, y, range(9), range(100, 109))

    assert result.se == pytest.approx(welch_t(x, y).se, rel=1e-12)
    assert result.dof == pytest.approx(student_t(x, y).dof)


@given(clustered_values(), clustered_values(), st.booleans())
def test_swapping_two_arms_flips_the_sign_and_keeps_p(first, second, shared):
    other = second[1] if shared else second[1] + 100
    single = clustered_arms(first[0], second[0], first[1], other)
    swapped = clustered_arms(second[0], first[0], other, first[1])

    assert single.estimate == pytest.approx(-swapped.estimate, abs=1e-12)
    assert single.p_value == (None if swapped.p_value is None else pytest.approx(swapped.p_value, rel=1e-9))
    assert single.status == swapped.status


def test_two_arms_whose_clusters_agree_have_the_permutation_p_over_clusters_or_none():
    high, low, names = [1.0] * 8, [0.5] * 6, list("aabbccdd")
    apart = clustered_arms(high, low, names, list("eeffgg"))
    shared = clustered_arms(high, low, names, list("aaffgg"))
    equal = clustered_arms(high, [1.0] * 6, names, list("aaffgg"))

    assert (apart.status, apart.p_value, apart.estimate) == ("degenerate", 2 / math.comb(7, 3), 0.5)
    assert (shared.p_value, equal.p_value, shared.se) == (None, 1.0, None)


def test_wrong_labels_and_names_are_refused():
    with pytest.raises(ValueError, match="10 values, 9 cluster labels"):
        clustered_arms(VALUES, VALUES, LABELS[1:], [*LABELS, "a"])
    with pytest.raises(ValueError, match="missing"):
        clustered_arms(VALUES, VALUES, LABELS, [None, *LABELS[1:]])
    with pytest.raises(ValueError, match="one of 'cr0', 'cr1', 'cr2', 'cr3', not 'hc3'"):
        clustered_mean(VALUES, LABELS, variance="hc3", fewest=2)


# -- what clusters cost -------------------------------------------------------------------------------------------


def test_copies_of_one_value_are_worth_one_value():
    effect = cluster_effect([0.0] * 3 + [1.0] * 3 + [0.0] * 3 + [1.0] * 3, np.repeat(range(4), 3))

    assert (effect.icc, effect.design_effect, effect.effective_n) == (1.0, 3.0, 4.0)
    assert (effect.n, effect.clusters, effect.size) == (12, 4, 3.0)


def test_singletons_cost_nothing_and_have_no_correlation():
    effect = cluster_effect(VALUES, range(10))

    assert (effect.icc, effect.design_effect, effect.effective_n, effect.size) == (None, 1.0, 10.0, 1.0)
    assert effect.se_naive == pytest.approx(clustered_mean(VALUES, range(10)).se)


def test_values_that_do_not_vary_have_no_correlation():
    effect = cluster_effect([0.1 + 0.2, 0.3, 0.3, 0.3], list("aabb"))

    assert (effect.icc, effect.design_effect, effect.effective_n) == (None, None, None)


@given(clustered_values())
def test_the_correlation_of_clusters_is_one_at_most(arms):
    effect = cluster_effect(*arms)

    assert effect.icc is None or effect.icc <= 1 + 1e-12
    assert 1 - 1e-12 <= effect.size <= np.bincount(arms[1]).mean() + 1e-12


@given(clustered_values())
def test_the_larger_a_mean_the_smaller_is_the_p_value_of_greater(drawn):
    mean = clustered_mean(*drawn)
    assume(mean.se > 0)
    greater, less, both = (
        clustered_p_value(mean, mu=mean.estimate - mean.se, alternative=side)
        for side in ("greater", "less", "two-sided")
    )

    assert greater < 0.5 < less
    assert greater + less == pytest.approx(1)
    assert both == pytest.approx(2 * greater)
