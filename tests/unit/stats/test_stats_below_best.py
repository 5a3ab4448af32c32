"""Tests of the arms that are not the best, with an error rate for the best alone."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import compare_all_arms, p_below_best
from pytest_crucible.stats.interval import NotEnoughData

RNG = np.random.default_rng(0)


def test_two_arms_have_the_p_value_of_their_pair():
    values = RNG.normal([0.0, 0.3], 1.0, (40, 2))
    pair = compare_all_arms(values)

    # One of two arms is the claim of its pair alone, not of both directions.
    assert p_below_best(values)[0] == pytest.approx(pair.p_adjusted[1, 0] / 2, rel=0.1)
    assert p_below_best(values)[1] == 1.0


def test_it_claims_less_than_all_pairs_together():
    values = RNG.normal([0.0, 0.3, 0.3, 0.5, 0.6], 1.0, (60, 5))
    pairs = compare_all_arms(values).p_adjusted.min(axis=0)

    assert all(below <= pair for below, pair in zip(p_below_best(values), pairs, strict=True))


def test_constant_differences_are_decided_by_sign_flips():
    few = np.column_stack([np.zeros(3), np.ones(3)])
    many = np.column_stack([np.zeros(12), np.ones(12)])

    assert p_below_best(few)[0] == 0.5**3
    assert p_below_best(many)[0] < 0.001
    assert p_below_best(many)[1] == 1.0


def test_groups_are_the_units():
    values = np.repeat(RNG.normal([0.5, 0.7], 0.2, (6, 2)), 10, axis=0)
    groups = np.repeat(np.arange(6), 10)

    assert p_below_best(values)[0] < 0.001 < p_below_best(values, clusters=groups)[0]
    with pytest.raises(NotEnoughData):
        p_below_best(values[:40], clusters=groups[:40])


def test_the_best_of_several_arms_is_seldom_taken_for_another():
    wrong = [p_below_best(RNG.normal(0.0, 1.0, (30, 6)), draws=500)[0] <= 0.05 for _ in range(400)]

    # Six equal arms: 5 %, and three standard errors.
    assert np.mean(wrong) <= 0.05 + 3 * 0.011
