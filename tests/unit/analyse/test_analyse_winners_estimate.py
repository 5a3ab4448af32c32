"""The winner's estimate is corrected for its choice, also where others were dropped before the end."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.analyse.members import MemberValues, correct_winner
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats import winner_from_values

RNG = np.random.default_rng(0)
VALUES = RNG.normal([0.5, 0.5, 0.52, 0.3], 0.2, (80, 4))
HIGHER = MetricFacts(name="a", kind="unbounded")
LOWER = MetricFacts(name="a", kind="unbounded", direction="lower")


def compare(values, facts=HIGHER):
    return MemberValues(facts=facts, values=values, clusters=None)


def test_without_drops_it_is_the_winner_of_the_values():
    winner, result = winner_from_values(VALUES), correct_winner(compare(VALUES))
    turned = correct_winner(compare(-VALUES, LOWER))

    assert (result.arm, result.value, result.naive) == (
        winner.arm,
        *map(pytest.approx, (winner.estimate, winner.naive)),
    )
    assert result.interval.high == pytest.approx(winner.interval.high)
    assert (turned.value, turned.naive) == (pytest.approx(-result.value), pytest.approx(-result.naive))
    assert turned.interval.low == pytest.approx(-result.interval.high)


def test_the_luck_is_among_the_members_that_are_left():
    dropped = VALUES.copy()
    dropped[10:, [0, 3]] = np.nan
    result, left = correct_winner(compare(dropped)), winner_from_values(VALUES[:, 1:3])

    assert result.arm == left.arm + 1
    assert result.value == pytest.approx(left.estimate)


def test_only_the_samples_that_chose_the_last_one_are_corrected():
    dropped = VALUES.copy()
    best = int(VALUES[:20, :3].mean(axis=0).argmax())
    dropped[20:, [arm for arm in range(3) if arm != best]] = dropped[10:, 3:] = np.nan
    chose, result = winner_from_values(VALUES[:20, :3]), correct_winner(compare(dropped))

    assert result.arm == chose.arm == best
    assert result.naive - result.value == pytest.approx((chose.naive - chose.estimate) * 20 / 80)
    assert result.interval.low < result.value < result.interval.high


def test_what_cannot_be_corrected():
    assert correct_winner(compare(VALUES[:1])) is None
