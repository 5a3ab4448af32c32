"""Calibration: worked examples, laws, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import Reply
from pytest_crucible.metrics.confidence import calibration, confidence_of
from pytest_crucible.stats.interval import NotEnoughData


def test_a_worked_example():
    """Bins (0.5, 0.6] and (0.8, 0.9]: 3/4 * |1/3 - 0.6| + 1/4 * |1 - 0.9| = 0.225."""
    found = calibration([0.6, 0.6, 0.6, 0.9], [1, 0, 0, 1])

    assert found.ece == pytest.approx(0.225)
    assert found.brier == pytest.approx((0.16 + 0.36 + 0.36 + 0.01) / 4)
    assert found.auroc == pytest.approx((2 + 2 * 0.5 + 0) / 4 + 0)
    assert [(row.n, row.accuracy) for row in found.table if row.n] == [(3, pytest.approx(1 / 3)), (1, 1.0)]
    assert found.table[0].confidence is None


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_the_share_of_pairs_in_order(pairs):
    said, right = zip(*pairs, strict=True)
    ones = [one for one, good in pairs if good]
    zeros = [one for one, good in pairs if not good]
    order = [(one > zero) + 0.5 * (one == zero) for one in ones for zero in zeros]

    found = calibration(said, right, bins=7)

    assert found.auroc == (pytest.approx(sum(order) / len(order)) if order else None)
    assert sum(row.n for row in found.table) == len(pairs)
    assert found.ece >= abs(found.accuracy - found.confidence) - 1e-12


def test_intervals_hold_what_they_say_and_are_the_same_each_time():
    generator = np.random.default_rng(1)
    said = generator.uniform(0, 1, 400)
    right = (generator.uniform(0, 1, 400) < said).astype(int)

    found, again = calibration(said, right), calibration(said, right)

    assert found == again
    assert found.brier_interval.low < 1 / 6 < found.brier_interval.high
    assert found.auroc_interval.low < 5 / 6 < found.auroc_interval.high


def test_groups_widen_the_interval():
    said, right = [0.9, 0.6, 0.3, 0.8] * 10, [1, 0, 0, 1] * 5 + [0, 0, 1, 1] * 5
    alone = calibration(said, right).brier_interval
    grouped = calibration(said, right, groups=[k // 10 for k in range(40)]).brier_interval

    assert alone.method == grouped.method == "bootstrap-basic"
    assert alone != grouped


def test_what_cannot_be_said_is_none():
    found = calibration([1.0, 1.0, 1.0], [1, 1, 1])

    assert (found.ece, found.ece_interval, found.auroc, found.auroc_interval) == (0.0, None, None, None)


@pytest.mark.parametrize(
    ("said", "right", "settings"),
    [
        ([0.5, 1.5], [0, 1], {}),
        ([0.5, float("nan")], [0, 1], {}),
        ([0.5, 0.5], [0, 2], {}),
        ([0.5], [0, 1], {}),
        ([0.5, 0.5], [0, 1], {"bins": 0}),
        ([0.5, 0.5], [0, 1], {"groups": ["a"]}),
    ],
)
def test_what_cannot_be_meant_is_refused(said, right, settings):
    with pytest.raises(ValueError, match=r"wanted|confidence|outcome|bins|groups"):
        calibration(said, right, **settings)


def test_too_little_is_said_to_be_too_little():
    with pytest.raises(NotEnoughData):
        calibration([0.5], [1])
    with pytest.raises(NotEnoughData):
        calibration([0.5, 0.5], [1, 0], groups=["a", "a"])


def test_confidence_comes_from_logprobs_where_there_are_any():
    assert confidence_of(Reply(text="a", logprobs=(-1.0, -3.0))) == pytest.approx(np.exp(-2))
    assert confidence_of(Reply(text="a")) is confidence_of(Reply(text="", logprobs=())) is None


@pytest.mark.parametrize(
    ("logprobs", "confidence"),
    [
        ((float("nan"), -1.0), None),
        ((float("-inf"),), 0.0),
        ((float("-inf"), float("inf")), None),
        ((1e-7,), 1.0),
        ((1e4,), 1.0),
    ],
)
def test_no_confidence_is_above_one_or_made_of_what_is_no_number(logprobs, confidence):
    assert confidence_of(Reply(text="a", logprobs=logprobs)) == confidence
