"""Replies to equal requests, and what it makes of a score that they differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_crucible.features.run_checks.repeatability import (
    MOST_PROMPTS,
    Setting,
    compare_replies,
    prompts,
    settings,
)

ONE = Setting(name="temperature 0", parameters={"temperature": 0}, concurrency=1)


def test_replies_are_compared_between_two_halves_of_the_requests():
    result = compare_replies([["same"] * 4, ["abc", "abc", "abd", "abc"], ["x", "y", "z", "x", "x"]], ONE, 0.95)

    assert (result.replies, result.unlike_most) == (13, 0 + 1 + 2)
    # same-same twice; abc-abd, abc-abc; x-z, y-x, and one without a partner
    assert (result.pairs, result.changed) == (6, 3)
    assert result.first_differences == (3, 1, 1)
    assert result.share.value == 0.5
    assert (result.share.interval.low, result.share.interval.high) == pytest.approx((0.1181, 0.8819), abs=1e-4)


def test_replies_that_never_change_are_bounded_by_their_number():
    result = compare_replies([["a"] * 8] * 8, ONE, 0.95)

    assert (result.changed, result.share.value, result.first_differences) == (0, 0.0, ())
    # The probability of 32 unchanged replies is then 2.5 %.
    assert (1 - result.share.interval.high) ** 32 == pytest.approx(0.025)
    noise, most = result.score_noise
    assert (noise, most) == (0.0, pytest.approx((result.share.interval.high / 100) ** 0.5))


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.sampled_from([0.9, 0.95]))
def test_the_interval_misses_the_mean_of_unequal_shares_no_more_often_than_it_may(shares, level):
    """Exactly, over all outcomes: prompts that change with shares of their own, each in two pairs."""
    counts = [1.0]
    for share in [share for share in shares for _ in range(2)]:
        counts = [
            (counts[k] if k < len(counts) else 0.0) * (1 - share) + (counts[k - 1] if k else 0.0) * share
            for k in range(len(counts) + 1)
        ]
    missed = 0.0
    for changed, probability in enumerate(counts):
        pairs = [["a", "b" if k < changed else "a"] for k in range(8)]
        interval = compare_replies(pairs, ONE, level).share.interval
        missed += 0.0 if interval.low <= sum(shares) / 4 <= interval.high else probability

    assert missed <= 1 - level + 1e-9
    assert sum(counts) == pytest.approx(binom.cdf(8, 8, 0.5))


def test_each_kind_is_measured_alone_and_at_once():
    ways = settings(max_tokens=9, concurrency=64)

    assert [(way.name, way.concurrency, way.parameters.get("seed")) for way in ways] == [
        ("temperature 0", 1, None),
        ("temperature 0", 64, None),
        ("temperature 1, equal seeds", 1, 7),
        ("temperature 1, equal seeds", 64, 7),
    ]
    assert {way.parameters["max_tokens"] for way in ways} == {9}


def test_all_prompts_differ():
    assert len(set(prompts(MOST_PROMPTS))) == MOST_PROMPTS
