"""Drift of one field and memorisation: the tests equal scipy's, bounds hold, and margins have three states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from pytest_crucible.stats.data_drift import (
    compare_categories,
    compare_min_k,
    compare_numbers,
    compare_vectors,
    decide_margin,
    lowest_mean,
    order_test,
    stability_of_categories,
    stability_of_numbers,
)
from pytest_crucible.stats.interval import NotEnoughData

DRAW = np.random.default_rng(7)


def test_numbers_are_compared_as_scipy_does():
    old, new = DRAW.normal(size=80), DRAW.normal(0.5, size=60)
    drift, reference = compare_numbers(old, new), stats.ks_2samp(old, new)

    assert (drift.statistic, drift.p_value, drift.n) == (reference.statistic, reference.pvalue, (80, 60))


def test_categories_are_compared_as_scipy_does():
    table = [[30, 20, 10], [20, 25, 19]]
    drift, reference = compare_categories(*table), stats.chi2_contingency(table, correction=False)

    assert (drift.test, drift.seed) == ("chi-squared", None)
    assert drift.statistic == pytest.approx(reference.statistic)
    assert drift.p_value == pytest.approx(reference.pvalue)
    assert drift.distance == pytest.approx(np.abs(np.array(table[0]) / 60 - np.array(table[1]) / 64).sum() / 2)


def test_small_counts_are_permuted():
    drift = compare_categories([3, 1, 2], [1, 4, 1], draws=99_999)
    # The exact p of all tables with these totals, which Fisher and Freeman-Halton's enumeration gives by chi-squared.
    tables = [
        (a, b, 6 - a - b) for a in range(5) for b in range(6) if 0 <= 6 - a - b <= 3
    ]  # fmt: skip
    weights = [stats.multivariate_hypergeom.pmf(row, [4, 5, 3], 6) for row in tables]
    statistics = [sum((x - t / 2) ** 2 / (t / 2) for x, t in zip(row, (4, 5, 3), strict=True)) * 2 for row in tables]
    exact = sum(weight for weight, value in zip(weights, statistics, strict=True) if value >= drift.statistic - 1e-9)

    assert drift.test == "chi-squared, permuted"
    assert drift.p_value == pytest.approx(exact, abs=0.006)
    assert compare_categories([3, 1, 2], [1, 4, 1]).p_value == compare_categories([3, 1, 2], [1, 4, 1]).p_value


def test_texts_are_compared_by_their_means():
    vectors = np.eye(4)[[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]]
    drift = compare_vectors(sparse.csr_matrix(vectors), 6)

    assert drift.statistic == pytest.approx(2.0)
    # Two of the 924 divisions are as extreme.
    assert drift.p_value < 0.01
    assert drift.lower(0.05) is None


def test_too_few_values_allow_no_test():
    for compare in (lambda: compare_numbers([1], [1, 2]), lambda: compare_categories([3], [4]),
                    lambda: compare_vectors(np.eye(3), 1)):  # fmt: skip
        with pytest.raises(NotEnoughData):
            compare()


def test_a_margin_has_three_states():
    same = compare_numbers(DRAW.normal(size=20_000), DRAW.normal(size=20_000))
    far = compare_numbers(DRAW.normal(size=20_000), DRAW.normal(1, size=20_000))
    few = compare_numbers(DRAW.normal(size=50), DRAW.normal(0.3, size=50))

    assert [decide_margin(drift, 0.1, alpha=0.05, family_size=1) for drift in (same, far, few)] == [
        "met", "missed", "undecided",
    ]  # fmt: skip


def test_a_drift_that_is_proven_may_be_within_the_margin():
    drift = compare_numbers(DRAW.normal(size=100_000), DRAW.normal(0.03, size=100_000))

    assert drift.p_value < 0.001
    assert decide_margin(drift, 0.1, alpha=0.05, family_size=15) == "met"


def test_bounds_are_those_of_bounded_differences():
    """McDiarmid (1989): one value moves the distance by 1 / n at most."""
    drift = compare_categories([0, 30, 30], [45, 45, 0])
    slack = np.sqrt(np.log(20) / 2 * (1 / 60 + 1 / 90))

    assert drift.upper(0.05) == pytest.approx(drift.distance + slack)
    assert drift.lower(0.05) == pytest.approx(drift.distance - drift.noise - slack)
    assert drift.noise == pytest.approx(0.5 * np.sqrt(2 * (1 / 60 + 1 / 90)))


def test_the_stability_index_is_shown_beside_its_mean_without_drift():
    indices = [stability_of_numbers(DRAW.normal(size=50), DRAW.normal(size=50)) for _ in range(60)]
    excess = np.array([index - expected for index, expected in indices])

    assert 0.25 < np.mean([expected for _, expected in indices]) < 0.5
    assert abs(excess.mean()) < 3 * excess.std() / np.sqrt(len(excess))
    assert stability_of_categories([5], [9]) == (0.0, 0.0)


def test_numbers_with_ties_are_permuted():
    """Zeros and ones: the p-value without ties is .198 where the chi-squared test gives .0006."""
    old, new = np.repeat([0, 1], [450, 50]), np.repeat([0, 1], [415, 85])
    drift = compare_numbers(old, new, seed=3, draws=19_999)
    # The exact p of all tables with these totals: the distance is a function of the number of ones in the old sample.
    ones = stats.hypergeom(1000, 135, 500)
    counts = np.arange(136)
    exact = ones.pmf(counts)[np.abs(counts - 67.5) >= 17.5].sum()

    assert (drift.test, drift.seed) == ("Kolmogorov-Smirnov, permuted", 3)
    assert stats.ks_2samp(old, new).pvalue > 0.15
    assert drift.p_value == pytest.approx(exact, abs=0.0008)
    assert compare_numbers(old, new, seed=3, draws=19_999) == drift


def test_ties_of_many_values_are_permuted_in_steps():
    """Half are zero, and the others all different: more than a thousand values."""
    old, new = (np.where(DRAW.random(4000) < 0.5, 0.0, DRAW.exponential(scale, 4000)) for scale in (1.0, 1.0))
    drift = compare_numbers(old, new)

    assert drift.test == "Kolmogorov-Smirnov, permuted"
    assert 0.001 < drift.p_value <= stats.ks_2samp(old, new).pvalue + 0.03
    assert drift.statistic == stats.ks_2samp(old, new).statistic


def test_a_difference_beyond_what_draws_can_show_keeps_its_upper_bound():
    drift = compare_numbers(np.repeat([0, 1], [400, 100]), np.repeat([0, 1], [100, 400]))

    assert drift.test == "Kolmogorov-Smirnov"
    assert drift.p_value < 1e-15


def test_infinities_have_a_stability_index():
    values = np.r_[np.full(30, np.inf), np.full(30, -np.inf), DRAW.normal(size=40)]

    assert stability_of_numbers(values, values)[0] == pytest.approx(0)
    assert np.isfinite(stability_of_numbers(values, DRAW.normal(size=90))).all()


# -- tests of memorisation ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8))
def test_p_of_an_exchangeable_order_is_valid(values):
    """Over all choices of which order is the dataset's own, p <= a for at most a share a of them."""
    p_values = [order_test(value, values[:k] + values[k + 1 :]).p_value for k, value in enumerate(values)]

    for level in np.unique(p_values):
        assert np.mean(np.array(p_values) <= level) <= level + 1e-12


def test_the_lowest_fifth_of_the_tokens_is_averaged():
    assert lowest_mean([-1.0] * 8 + [-4.0, -6.0]) == -5.0
    assert lowest_mean([-1.0, -3.0], 0.5) == -3.0
    with pytest.raises(NotEnoughData):
        lowest_mean([])
    with pytest.raises(NotEnoughData):
        order_test(1.0, [])
    with pytest.raises(NotEnoughData):
        compare_min_k([1.0], [1.0, 2.0])


def test_gains_are_compared_as_scipy_does():
    gains, fresh = [3.0, 1.0, 2.0, 2.0], [0.5, 2.0, 0.1]
    test, reference = compare_min_k(gains, fresh), stats.mannwhitneyu(gains, fresh, alternative="greater")

    assert (test.p_value, test.n) == (reference.pvalue, (4, 3))
    assert test.auroc == pytest.approx(reference.statistic / 12)


def test_gains_that_are_all_equal_prove_nothing():
    test = compare_min_k([0.0, 0.0], [0.0, 0.0, 0.0])

    assert (test.p_value, test.auroc) == (1.0, 0.5)
