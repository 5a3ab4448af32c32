"""Permutation tests: exact ones are enumerations, drawn ones come close, and nothing is ever impossible."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling import permutation
from pytest_crucible.stats.resampling.permutation import permute_two_samples, sign_flip

ALTERNATIVES = ["two-sided", "greater", "less"]
TENTHS = st.integers(-20, 20).map(lambda cell: cell / 10)
DIFFERENCES = st.lists(TENTHS, min_size=1, max_size=9)
ARMS = st.tuples(st.lists(TENTHS, min_size=1, max_size=5), st.lists(TENTHS, min_size=1, max_size=5))
NOISE = np.random.default_rng(21).normal(0.15, 1.0, 60)


def share_as_extreme(statistics, observed, alternative):
    statistics = np.asarray(statistics)
    if alternative == "two-sided":
        statistics, observed = np.abs(statistics), abs(observed)
    elif alternative == "less":
        statistics, observed = -statistics, -observed
    return float(np.mean(statistics >= observed - 1e-9))


# -- sign flips ---------------------------------------------------------------------------------------------------


@given(DIFFERENCES, st.sampled_from(ALTERNATIVES))
def test_the_exact_sign_flip_test_is_the_enumeration(differences, alternative):
    means = [np.dot(signs, differences) / len(signs) for signs in itertools.product((-1, 1), repeat=len(differences))]
    found = sign_flip(differences, alternative=alternative)

    assert found.exact
    assert found.arrangements == 2 ** len(differences)
    assert found.p_value == pytest.approx(share_as_extreme(means, np.mean(differences), alternative), abs=1e-12)


@given(DIFFERENCES)
def test_swapping_the_arms_flips_the_sign_and_keeps_p(differences):
    one, other = sign_flip(differences), sign_flip([-value for value in differences])
    greater, less = (
        sign_flip(differences, alternative="greater"),
        sign_flip([-value for value in differences], alternative="less"),
    )

    assert other.statistic == pytest.approx(-one.statistic)
    assert other.p_value == one.p_value
    assert greater.p_value == less.p_value
    assert 0 < one.p_value <= 1


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_the_law_on_a_grid_is_the_count(monkeypatch, alternative):
    differences = np.round(NOISE[:30], 1)
    counted = sign_flip(differences, alternative=alternative)
    monkeypatch.setattr(permutation, "MOST_SPLIT", 5)
    on_a_grid = sign_flip(differences, alternative=alternative)

    assert (counted.method, on_a_grid.method) == ("sign flips, exact by counting", "sign flips, exact on a grid")
    assert on_a_grid.p_value == pytest.approx(counted.p_value, rel=1e-12)
    assert on_a_grid.seed is None


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_random_flips_come_close_to_the_exact_answer(monkeypatch, alternative):
    exact = sign_flip(NOISE[:30], alternative=alternative)
    monkeypatch.setattr(permutation, "MOST_SPLIT", 5)
    drawn = sign_flip(NOISE[:30], alternative=alternative, flips=20_000, rng=4)

    assert (drawn.exact, drawn.seed, drawn.arrangements) == (False, 4, 20_000)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=4 * drawn.p_error)
    assert drawn.p_error == pytest.approx(math.sqrt(exact.p_value * (1 - exact.p_value) / 20_000), rel=0.2)


def test_random_flips_repeat_with_their_seed():
    one, other = sign_flip(NOISE, rng=1), sign_flip(NOISE, rng=1)

    assert not one.exact
    assert one == other
    assert sign_flip(NOISE, rng=np.random.default_rng(1)).p_value == one.p_value


def test_a_drawn_p_value_is_never_below_one_in_all_draws():
    far = sign_flip(NOISE + 20, flips=500)

    assert far.p_value == far.smallest == 1 / 501


def test_ties_with_the_observed_count_whatever_the_rounding(monkeypatch):
    """All differences of one size, but written by different arithmetic: two of 2^6 patterns are as extreme."""
    differences = [0.1 + 0.2, 0.3, 0.3, 0.9 / 3, 0.3, 0.4 - 0.1]

    assert sign_flip(differences).p_value == 2 / 2**6
    monkeypatch.setattr(permutation, "MOST_SPLIT", 1)
    assert sign_flip(differences).p_value == pytest.approx(2 / 2**6, rel=1e-12)
    monkeypatch.setattr(permutation, "compute_sign_flip_distribution", lambda _: None)
    assert sign_flip(differences, flips=20_000).p_value == pytest.approx(2 / 2**6, abs=0.005)


def test_a_thousand_equal_differences_have_a_p_value_that_is_not_zero():
    found = sign_flip(np.full(1000, 0.25))

    assert found.p_value == pytest.approx(2.0**-999, rel=1e-9)
    assert (found.status, found.exact) == ("degenerate", True)


def test_a_p_value_below_the_smallest_float_is_the_smallest():
    found = sign_flip(np.full(2000, 0.25))

    assert 0 < found.p_value == found.smallest
    assert found.arrangements == math.inf


def test_no_difference_at_all_has_p_one():
    found = sign_flip([0.0] * 40)

    assert (found.p_value, found.statistic, found.status) == (1.0, 0.0, "degenerate")
    assert sign_flip([0.0] * 40, alternative="greater").p_value == 1.0


def test_zeros_keep_p_and_count_as_arrangements():
    one, other = sign_flip([0.3, 0.4, -0.1]), sign_flip([0.3, 0.0, 0.4, 0.0, -0.1])

    assert other.p_value == one.p_value
    assert (one.arrangements, other.arrangements) == (8, 32)


def test_clusters_flip_whole():
    differences, labels = [0.1, 0.3, -0.2, 0.4, 0.5, 0.1], ["a", "a", "b", "b", "c", "c"]
    found = sign_flip(differences, clusters=labels)

    assert found.p_value == sign_flip([0.4, 0.2, 0.6]).p_value == 0.25
    assert (found.clusters, found.arrangements, found.n) == (3, 8, (6,))
    assert found.statistic == pytest.approx(0.2)


def test_one_difference_says_nothing_and_none_less():
    assert sign_flip([0.4]).p_value == 1.0
    assert sign_flip([0.4], alternative="greater").p_value == 0.5
    with pytest.raises(NotEnoughData, match="0 differences"):
        sign_flip([])


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="1 of 2 differences"):
        sign_flip([0.1, math.nan])
    with pytest.raises(ValueError, match="flips must be at least 100, not 7"):
        sign_flip([0.1, 0.2], flips=7)
    with pytest.raises(ValueError, match="2 values, 1 cluster"):
        sign_flip([0.1, 0.2], clusters=["a"])
    with pytest.raises(ValueError, match="1 of 2 values of the baseline are NaN or infinite"):
        permute_two_samples([0.1], [0.2, math.inf])


# -- two samples --------------------------------------------------------------------------------------------------


@given(ARMS, st.sampled_from(ALTERNATIVES))
def test_the_exact_two_sample_test_is_the_enumeration(arms, alternative):
    first, second = arms
    pooled = np.array(first + second)
    statistics = []
    for chosen in itertools.combinations(range(pooled.size), len(first)):
        inside = np.isin(np.arange(pooled.size), chosen)
        statistics.append(pooled[inside].mean() - pooled[~inside].mean())
    found = permute_two_samples(first, second, alternative=alternative)

    assert found.exact
    assert found.arrangements == len(statistics)
    assert found.p_value == pytest.approx(
        share_as_extreme(statistics, np.mean(first) - np.mean(second), alternative), abs=1e-12
    )


@given(ARMS)
def test_swapping_two_samples_flips_the_sign_and_keeps_p(arms):
    first, second = arms
    one, other = permute_two_samples(first, second), permute_two_samples(second, first)
    greater = permute_two_samples(first, second, alternative="greater")

    assert other.statistic == -one.statistic
    assert other.p_value == pytest.approx(one.p_value, abs=1e-15)
    assert permute_two_samples(second, first, alternative="less").p_value == pytest.approx(greater.p_value, abs=1e-15)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_random_permutations_come_close_to_the_exact_answer(monkeypatch, alternative):
    first, second = NOISE[:9], NOISE[9:22] - 0.5
    exact = permute_two_samples(first, second, alternative=alternative)
    monkeypatch.setattr(permutation, "can_count", lambda n, size: False)
    for one, other, way in ((first, second, alternative), (second, first, alternative)):
        drawn = permute_two_samples(one, other, alternative=way, permutations=20_000, rng=2)
        wanted = exact if one is first else permute_exactly(second, first, way)
        assert drawn.p_value == pytest.approx(wanted.p_value, abs=4 * max(drawn.p_error, 1e-3))
        assert (drawn.seed, drawn.exact) == (2, False)


def permute_exactly(first, second, alternative):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "can_count", lambda n, size: True)
        return permute_two_samples(first, second, alternative=alternative)


def test_a_small_arm_is_exact_beside_a_large_one():
    found = permute_two_samples(NOISE[:3] + 1, NOISE[3:])

    assert found.exact
    assert found.arrangements == math.comb(60, 3)
    reference = scipy_stats.permutation_test(
        (NOISE[:3] + 1, NOISE[3:]), lambda x, y, axis: x.mean(axis) - y.mean(axis), n_resamples=np.inf, vectorized=True
    )
    assert permute_two_samples(NOISE[:3] + 1, NOISE[3:], alternative="greater").p_value == pytest.approx(
        np.mean(reference.null_distribution >= reference.statistic - 1e-12)
    )


def test_arms_that_do_not_vary_are_counted():
    """A thousand ones against a thousand zeros cannot be counted; four against four can: 2 of 70."""
    assert permute_two_samples([1.0] * 4, [0.0] * 4).p_value == pytest.approx(2 / 70)
    assert permute_two_samples([1.0] * 4, [0.0] * 4).status == "degenerate"
    assert permute_two_samples([1.0] * 4, [1.0] * 4).p_value == 1.0


def test_an_empty_arm_is_refused():
    with pytest.raises(NotEnoughData, match="0 and 2 values"):
        permute_two_samples([], [0.1, 0.2])


# -- several metrics ----------------------------------------------------------------------------------------------


# -- how it reads -------------------------------------------------------------------------------------------------


def test_a_permutation_test_reads_in_one_line():
    assert (
        str(sign_flip([0.2, 0.5, 0.1, 0.4, 0.3, 0.6]))
        == "mean difference +0.350, p = 0.031, n=6 (sign flips, exact by counting)"
    )
