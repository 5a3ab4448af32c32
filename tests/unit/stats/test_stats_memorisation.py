"""Tests of memorisation: exact p-values, and the least probable tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_crucible.stats.data_drift import compare_min_k, lowest_mean, order_test
from pytest_crucible.stats.interval import NotEnoughData


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
