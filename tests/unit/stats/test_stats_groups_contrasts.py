"""Planned contrasts: every one is the two-arm test, Holm holds the family together, the omnibus test decides nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.groups.contrasts import compare_arms
from pytest_crucible.stats.groups.same_samples import friedman
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.means.two_samples import welch_t
from pytest_crucible.stats.multiplicity.adjust import holm
from pytest_crucible.stats.proportions.paired_exact import paired_exact_p_value, paired_exact_test
from pytest_crucible.stats.proportions.two_exact import two_exact_p_value

SCORES = st.integers(0, 100).map(lambda score: score / 100)
BITS = st.integers(0, 1).map(float)


@st.composite
def designs(draw: st.DrawFn) -> tuple[list[np.ndarray], str]:
    kind = draw(st.sampled_from(["numeric", "binary"]))
    n, k = draw(st.integers(2, 10)), draw(st.integers(2, 4))
    values = BITS if kind == "binary" else SCORES
    return [np.array(draw(st.lists(values, min_size=n, max_size=n))) for _ in range(k)], kind


def two_arm_p_value(first: np.ndarray, second: np.ndarray, *, paired: bool, kind: str) -> float:
    if kind == "numeric":
        return (paired_t if paired else welch_t)(first, second).p_value
    if paired:
        return paired_exact_p_value(int(np.sum(first > second)), int(np.sum(first < second)), first.size)
    return two_exact_p_value(int(first.sum()), first.size, int(second.sum()), second.size)


@given(designs(), st.booleans(), st.sampled_from([None, 0, 1]))
def test_every_contrast_is_the_two_arm_test_and_holm_holds_the_family(design, paired, baseline):
    arms, kind = design
    found = compare_arms(arms, paired=paired, baseline=baseline, kind=kind)
    expected = [two_arm_p_value(arms[one.first], arms[one.second], paired=paired, kind=kind) for one in found.contrasts]

    assert [one.p_value for one in found.contrasts] == expected
    assert [one.p_adjusted for one in found.contrasts] == holm(expected)
    assert len(found.contrasts) == (len(arms) - 1 if baseline is not None else math.comb(len(arms), 2))
    assert all(one.second == baseline for one in found.contrasts if baseline is not None)
    assert found.omnibus.p_value is None or 0 <= found.omnibus.p_value <= 1


@given(designs(), st.booleans())
def test_simultaneous_intervals_contain_the_own_ones_and_never_contradict_holm(design, paired):
    arms, kind = design
    for one in compare_arms(arms, paired=paired, kind=kind, bounds=(0.0, 1.0)).contrasts:
        if one.interval is None:
            continue
        assert one.interval.low <= one.own_interval.low <= one.own_interval.high <= one.interval.high
        if one.status == "ok" and (one.interval.low > 0 or one.interval.high < 0):
            assert one.p_adjusted <= 0.05 + 1e-9


def test_binary_arms_show_what_the_test_of_two_arms_shows():
    arms = [
        np.array([0.0, 0, 0, 0, 1, 1, 0, 0]),
        np.array([1.0, 1, 1, 1, 1, 1, 0, 0]),
        np.array([0.0, 1, 0, 0, 1, 1, 0, 1]),
    ]
    found = compare_arms(arms, paired=True, kind="binary", alpha=0.1)
    first = found.contrasts[0]

    assert (first.difference, first.own_interval) == (0.5, paired_exact_test(4, 0, 8, level=0.9).interval)
    assert first.interval == paired_exact_test(4, 0, 8, level=0.95).interval
    assert (found.method, found.omnibus.method) == ("exact unconditional", "cochran q")
    assert found.omnibus.p_value == friedman(np.column_stack(arms)).p_value


def test_independent_binary_arms_have_pearsons_statistic_beside_them():
    # (16/20, 10/20): Pearson's chi-squared without correction is 40 (16*10 - 4*10)^2 / (20*20*26*14)
    found = compare_arms([[1] * 16 + [0] * 4, [1] * 10 + [0] * 10], paired=False, kind="binary")

    assert found.omnibus.statistic == pytest.approx(40 * 120**2 / (20 * 20 * 26 * 14))


def test_an_omnibus_test_that_sees_nothing_closes_no_contrast():
    rng = np.random.default_rng(5)
    baseline = rng.normal(size=12)
    arms = [
        baseline,
        baseline + 0.3 + 0.05 * rng.normal(size=12),
        *(baseline + 3 * rng.normal(size=12) for _ in range(4)),
    ]
    found = compare_arms(arms, paired=True)

    assert found.omnibus.p_value > 0.05
    assert found.contrasts[0].p_adjusted < 0.001


def test_equal_arms_are_no_difference_with_the_interval_of_their_bounds():
    arm = [0.2, 0.5, 0.9]
    found = compare_arms([arm, arm, arm], paired=True, bounds=(0.0, 1.0))

    assert [one.p_adjusted for one in found.contrasts] == [1.0, 1.0]
    assert found.contrasts[0].interval.low < 0 < found.contrasts[0].interval.high
    assert found.omnibus.status == "degenerate"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare_arms([[1, 2], [1, 2, 3]], paired=True), "2 and 3"),
        (lambda: compare_arms([[1, 2], [1, 2]], paired=True, baseline=2), "one of 2 arms"),
        (lambda: compare_arms([[1, 0], [1, 0.5]], paired=False, kind="binary"), "1 of 4"),
        (lambda: compare_arms([[1, 0], [1, math.nan]], paired=False), "1 of 2"),
        (lambda: compare_arms([[1, 0], [1, 0]], paired=True, kind="ordinal"), "not 'ordinal'"),
        (lambda: compare_arms([[1, 0], [1, 0]], paired=True, alpha=0.0), "alpha"),
    ],
)
def test_wrong_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
