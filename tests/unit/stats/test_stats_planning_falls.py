"""The smallest loss by falls: closed cases, and laws over sizes, noise and falls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_crucible.stats.planning.next_sample import detectable_by_error
from pytest_crucible.stats.planning.proof import detectable_by_falls


def test_without_noise_enough_samples_have_to_fall():
    loss = detectable_by_falls(100, 1e-9, [1.0])

    # Five equal falls are proof in 0.05 * 2^4 = 80 % of runs with noise that breaks ties, six in all.
    chances = sum(binom.pmf(k, 100, loss) * min(1.0, 0.05 * 2 ** (k - 1)) for k in range(4, 101))
    assert chances == pytest.approx(0.8, abs=0.03)


def test_a_fall_of_all_samples_may_be_unseen():
    assert detectable_by_falls(4, 0.5, [0.01]) is None
    assert detectable_by_falls(50, 0.1, [0.0, 0.0]) is None


@given(st.integers(10, 2000), st.floats(0.01, 0.5), st.floats(0.3, 1.0))
def test_more_samples_see_smaller_losses(n, deviation, fall):
    few, many = (detectable_by_falls(size, deviation, [fall, fall / 2]) for size in (n, 2 * n))

    assert few is None or many <= few


@given(st.integers(30, 2000), st.floats(0.01, 0.3))
def test_a_loss_by_falls_has_to_be_larger_than_one_that_is_spread(n, deviation):
    falls = detectable_by_falls(n, deviation, [1.0])

    assert falls >= 0.97 * detectable_by_error(deviation / n**0.5, n - 1)
