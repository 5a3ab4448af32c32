"""Guaranteed bounds by bets paced to a fixed number of values: laws, exact error rates, groups, order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.sequential import paced_bets
from pytest_crucible.stats.sequential.paced_bets import PacedBets, betting_bound, betting_p_value, pace_bets
from tests.run_sizes import choose_examples

SIDES = ("lower", "upper")
ALPHAS = st.sampled_from([1e-6, 0.005, 0.05, 0.3])
SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]) | st.floats(0, 1), min_size=1, max_size=60)
MEANS = st.floats(0.001, 0.999)
UNIT = {"bounds": (0.0, 1.0)}


def mixture(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).beta(2, 1, n)


def follow_wealth(bets: PacedBets, mean: float, start: float) -> float:
    """Bet from the start on and return the share of the goal at the end: the definition, in which nothing is inverted."""
    wealth = start
    for total, size, rate in zip(bets.totals, bets.sizes, bets.rates, strict=True):
        linear, square = paced_bets._LINEAR, paced_bets._SQUARE
        room = wealth * (paced_bets._AIM - wealth)
        ellipse = (-linear + math.sqrt(linear**2 + 4 * square * room)) / (2 * square)
        bet = min(rate * ellipse, paced_bets._LARGEST_BET / mean * wealth)
        wealth += bet * (total - mean * size)
        if wealth >= 1:
            return 1.0
    return wealth


@settings(max_examples=choose_examples(200))
@given(SCORES, MEANS)
def test_the_smallest_start_is_the_smallest_that_reaches_the_goal(values, mean):
    bets = pace_bets(np.array(values), np.ones(len(values)))
    start = bets.smallest_start(mean)
    assume(1e-9 < start < 1)

    assert follow_wealth(bets, mean, min(start * (1 + 1e-6), 1.0)) == pytest.approx(1.0, abs=1e-7)
    assert follow_wealth(bets, mean, start * (1 - 1e-5)) < 1.0


@settings(max_examples=choose_examples(200))
@given(SCORES, MEANS, ALPHAS, st.sampled_from(SIDES))
def test_bound_and_p_value_agree(values, null, alpha, side):
    bound = betting_bound(values, alpha=alpha, side=side, **UNIT)
    assume(abs(bound - null) > 1e-7)

    excluded = null < bound if side == "lower" else null > bound
    assert excluded == (betting_p_value(values, null=null, side=side, **UNIT) <= alpha)


@settings(max_examples=choose_examples(100))
@given(SCORES, ALPHAS)
def test_bounds_lie_within_the_range_and_mirrored_values_mirror_them(values, alpha):
    low, high = (betting_bound(values, alpha=alpha, side=side, **UNIT) for side in SIDES)

    assert 0 <= low <= max(values) + 1e-8
    assert min(values) - 1e-8 <= high <= 1
    mirrored = betting_bound([-value for value in values], bounds=(-1.0, 0.0), alpha=alpha, side="upper")
    assert mirrored == pytest.approx(-low, abs=1e-7)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_no_level_is_exceeded_by_any_sequence_of_bits(p):
    """Exactly, over all 2^10 sequences: the p-value is at most a with a probability of at most a, for every a."""
    p_values, chances = [], []
    for bits in itertools.product((0.0, 1.0), repeat=10):
        p_values.append(betting_p_value(bits, null=p, side="lower", **UNIT))
        chances.append(p ** sum(bits) * (1 - p) ** (10 - sum(bits)))
    order = np.argsort(p_values)
    at_most = np.cumsum(np.array(chances)[order])

    assert (at_most <= np.array(p_values)[order] * (1 + 1e-9)).all()


def test_values_that_are_all_at_their_end_have_nearly_the_bound_of_clopper_and_pearson():
    bound = betting_bound([1.0] * 30, alpha=0.05, side="lower", **UNIT)

    assert 0.05 ** (1 / 30) - 0.001 < bound < 0.05 ** (1 / 30)


def test_impossible_means_are_excluded_or_never():
    values = mixture(20)

    assert betting_p_value(values, null=-0.1, side="lower", **UNIT) == math.ulp(0.0)
    assert betting_p_value(values, null=1.0, side="lower", **UNIT) == 1.0
    assert betting_p_value(np.zeros(20), null=0.0, side="lower", **UNIT) == 1.0
    assert betting_bound(np.zeros(20), alpha=0.05, side="lower", **UNIT) == 0.0


def test_the_keys_are_the_order():
    values, keys = mixture(100), np.random.default_rng(2).permutation(100)

    by_key = betting_bound(values, alpha=0.05, side="lower", keys=keys, **UNIT)

    moved = np.random.default_rng(3).permutation(100)
    assert betting_bound(values[moved], alpha=0.05, side="lower", keys=keys[moved], **UNIT) == by_key
    assert betting_bound(values, alpha=0.05, side="lower", keys=keys[::-1], **UNIT) != by_key


def test_many_values_are_joined_and_lose_little():
    values = mixture(40_000)

    low, high = (betting_bound(values, alpha=0.025, side=side, **UNIT) for side in SIDES)

    error = values.std() / 200
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.6 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.6 * error)


# -- groups -------------------------------------------------------------------------------------------------------


def test_groups_of_one_value_are_values():
    values = mixture(60)

    for side in SIDES:
        alone = betting_bound(values, alpha=0.05, side=side, **UNIT)
        assert betting_bound(values, alpha=0.05, side=side, clusters=np.arange(60), **UNIT) == alone


def test_a_group_counts_once():
    values = mixture(40)

    grouped = betting_bound(
        np.repeat(values, 5), alpha=0.05, side="lower", clusters=np.repeat(np.arange(40), 5), **UNIT
    )

    by_first = betting_bound(values, alpha=0.05, side="lower", keys=_first_keys(40, 5), **UNIT)
    assert grouped == pytest.approx(by_first, abs=1e-8)


def _first_keys(count: int, size: int) -> np.ndarray:
    from pytest_crucible.stats.resampling.draws import hash_positions

    return hash_positions(count * size)[::size]


def test_no_order_of_groups_depends_on_their_sizes():
    """The large group would nearly always come first, by the smallest key of its values."""
    sizes = [1] * 9 + [100]
    clusters = np.repeat(np.arange(10), sizes)
    first = 0
    for seed in range(200):
        values = np.repeat(np.arange(10) / 10, sizes)
        keys = np.random.default_rng(seed).permutation(clusters.size)
        from pytest_crucible.stats.sequential.paced_bets import _place_bets

        bets = _place_bets(values, (0.0, 1.0), "lower", clusters, keys)
        first += bets.sizes[0] == 1.0

    assert first < 50


def test_a_shift_with_the_size_of_groups_keeps_the_mean_over_values():
    """150 groups of 1 that gain and 150 of 9 that lose: the mean over values is -.08, that over groups is 0."""
    sizes = np.tile([1, 9], 150)
    labels = np.repeat(np.arange(300), sizes)
    values = np.repeat(np.tile([0.1, -0.1], 150), sizes)

    low, high = (betting_bound(values, bounds=(-1, 1), alpha=0.025, side=side, clusters=labels) for side in SIDES)

    assert low < -0.08 < high < 0


# -- invalid input ------------------------------------------------------------------------------------------------


def test_invalid_input_is_refused():
    with pytest.raises(ValueError, match="finite bounds"):
        betting_bound([1.0], bounds=(0, math.inf), alpha=0.05, side="lower")
    with pytest.raises(ValueError, match="alpha"):
        betting_bound([1.0], alpha=0.0, side="lower", **UNIT)
    with pytest.raises(ValueError, match="side"):
        betting_p_value([1.0], null=0.5, side="both", **UNIT)
    with pytest.raises(ValueError, match="1 of 2 values lie outside"):
        betting_bound([1.0, 2.0], alpha=0.05, side="lower", **UNIT)
    with pytest.raises(ValueError, match=r"one key for each of the 2 values, not the shape \(3,\)"):
        betting_bound([1.0, 0.5], alpha=0.05, side="lower", keys=[1, 2, 3], **UNIT)
    with pytest.raises(NotEnoughData):
        betting_bound([], alpha=0.05, side="lower", **UNIT)
    with pytest.raises(NotEnoughData, match="4 clusters"):
        betting_bound(mixture(8), alpha=0.05, side="lower", clusters=[1, 1, 2, 2, 3, 3, 4, 4], **UNIT)
