"""Repeats of questions, pass@k, pass^k and what pairing brings; missing values before all of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.repeats import pass_at_k, pass_hat_k, variance_components
from pytest_crucible.stats.proportions.one import wilson_interval

RNG = np.random.default_rng(9)
ROWS = st.lists(
    st.lists(st.integers(0, 8).map(lambda value: value / 8), min_size=1, max_size=6), min_size=2, max_size=12
)


# -- variance components ------------------------------------------------------------------------------------------


def test_components_of_equal_repeats_by_hand():
    """Row means 1/2, 1, 0, 1 (variance 11/48); within 1/8; between 11/48 - 1/16 = 1/6."""
    parts = variance_components([[1, 0], [1, 1], [0, 0], [1, 1]])

    assert parts.mean == 0.625
    assert (parts.within, parts.between) == pytest.approx((1 / 8, 1 / 6))
    assert parts.icc == pytest.approx((1 / 6) / (1 / 6 + 1 / 8))
    assert parts.se == pytest.approx(math.sqrt(11 / 48 / 4))
    assert parts.se_single == pytest.approx(math.sqrt((1 / 6 + 1 / 8) / 4))
    assert parts.se_repeats_doubled == pytest.approx(math.sqrt((1 / 6 + 1 / 32) / 4))
    assert parts.se_samples_doubled == pytest.approx(parts.se / math.sqrt(2))
    assert (parts.samples, parts.repeats) == (4, 8)


def test_one_repeat_cannot_tell_question_from_noise():
    parts = variance_components([[0.1], [0.4], [0.7]])

    assert (parts.between, parts.within, parts.icc, parts.se_single, parts.se_repeats_doubled) == (None,) * 5
    assert parts.se == pytest.approx(0.3 / math.sqrt(3))


def test_repeats_that_vary_more_than_questions_leave_a_negative_variance_but_no_false_promise():
    parts = variance_components([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])

    assert (parts.between, parts.within, parts.se) == (-0.25, 0.5, 0.0)
    assert parts.se_repeats_doubled == pytest.approx(math.sqrt(0.5 / 4 / 3))


def test_a_matrix_is_a_list_of_questions():
    matrix = RNG.random((5, 3))

    assert variance_components(matrix) == variance_components(matrix.tolist())


@pytest.mark.parametrize(
    ("groups", "problem", "message"),
    [
        ([], NotEnoughData, "0 sample"),
        ([[1.0, 2.0]], NotEnoughData, "1 sample"),
        ([[1.0], []], ValueError, "1 of 2 samples have no repeats"),
        ([[1.0, math.nan], [2.0]], ValueError, "1 of 3 values"),
    ],
)
def test_components_need_questions_with_repeats(groups, problem, message):
    with pytest.raises(problem, match=message):
        variance_components(groups)


@given(ROWS, st.lists(st.integers(0, 8), min_size=2, max_size=2))
def test_more_repeats_help_less_than_more_questions(rows, spread):
    """Equal repeats: each question's first value, moved by the same two distances."""
    parts = variance_components([[row[0] + by / 64 for by in (0, *spread)] for row in rows])
    assume(parts.between >= 0)

    assert parts.se_samples_doubled <= parts.se_repeats_doubled + 1e-12
    assert parts.se_repeats_doubled <= parts.se + 1e-12
    assert parts.se <= parts.se_single + 1e-12


# -- pass@k and pass^k --------------------------------------------------------------------------------------------


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_both_are_what_drawing_k_of_n_attempts_gives(counts):
    n, succeeded, k = counts
    draws = list(itertools.combinations([True] * succeeded + [False] * (n - succeeded), k))

    assert pass_at_k([n], [succeeded], k).mean == pytest.approx(sum(map(any, draws)) / len(draws), rel=1e-14)
    assert pass_hat_k([n], [succeeded], k).mean == pytest.approx(sum(map(all, draws)) / len(draws), rel=1e-14)


@given(st.lists(st.integers(0, 10), min_size=2, max_size=12), st.integers(1, 9))
def test_one_of_k_is_likelier_and_all_of_k_less_likely_with_more_attempts(succeeded, k):
    for function, grows in ((pass_at_k, 1), (pass_hat_k, -1)):
        fewer, more = function(10, succeeded, k), function(10, succeeded, k + 1)

        assert grows * (more.mean - fewer.mean) >= -1e-12
        assert 0 <= fewer.interval.low <= fewer.mean <= fewer.interval.high <= 1
        assert fewer.interval.low < fewer.interval.high


def test_flaky_questions_among_sure_ones_are_covered():
    """One question in ten passes by chance: Student's t covers the truth in 79 % of such runs."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(200):
        flaky = rng.random(30) < 0.1
        successes = np.where(flaky, rng.binomial(5, 0.5, 30), 5)
        interval = pass_at_k(5, successes, 3).interval
        covered += interval.low <= 0.9 + 0.1 * 0.875 <= interval.high
    assert covered >= 0.95 * 200 - 3 * (200 * 0.05 * 0.95) ** 0.5


def test_questions_that_all_agree_have_the_interval_of_a_proportion():
    assert pass_at_k(4, [4] * 20, 2).interval == wilson_interval(20, 20)
    assert pass_at_k(4, [0] * 20, 2).interval == wilson_interval(0, 20)


def test_one_question_or_few_clusters_have_no_interval_and_say_why():
    assert (pass_at_k(4, [2], 2).interval, pass_at_k(4, [2], 2).note[:8]) == (None, "1 value:")
    assert "2 clusters:" in pass_at_k(4, [2, 3, 1], 2, clusters=["a", "a", "b"]).note


@pytest.mark.parametrize(
    ("attempts", "successes", "k"),
    [([4, 4], [5, 1], 2), ([4, 4], [-1, 1], 2), ([4, 4], [1.5, 1], 2), ([4, 1], [1, 1], 2), ([4], [1], 0), ([], [], 1)],
)
def test_impossible_counts_are_refused(attempts, successes, k):
    for function in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=r"\d"):
            function(attempts, successes, k)
