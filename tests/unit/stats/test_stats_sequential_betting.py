"""Betting sequences, bounds and e-values: against a grid of means, against enumeration, and their laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.sequential.betting import betting_sequence, evidence_against, paired_sequence

SCORES = st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=40)
ALPHAS = st.sampled_from([0.01, 0.05, 0.2])
SIDES = ("lower", "upper")


def mixture(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.2, 0.0, rng.beta(6, 2, n))


def wealth_by_hand(values, mean, tail, *, largest=0.5):
    """The definition, one value after the other."""
    wealth, total, squares, path = 1.0, 0.5, 0.25, []
    for i, x in enumerate(values, 1):
        stake = math.sqrt(2 * math.log(1 / tail) / (i * math.log(1 + i) * squares / i))
        wealth *= 1 + min(stake, largest / mean) * (x - mean)
        total += x
        squares += (x - total / (i + 1)) ** 2
        path.append(wealth)
    return np.array(path)


GROUPS = ((1.0, 1.0, 0.2), (1.0, 0.0, 0.1), (0.25, 1.0, 0.4), (0.25, 0.0, 0.3))
"""Weight, mean and chance of four kinds of groups: large ones are right more often than small ones."""


def refuted_share(mean, side, groups=5, alpha=0.2):
    """The share of sequences that refute a mean at any look, exactly: all sequences of so many groups."""
    share = 0.0
    for drawn in itertools.product(GROUPS, repeat=groups):
        weights, values, chances = zip(*drawn, strict=True)
        evidence = evidence_against(values, mean=mean, bounds=(0, 1), alpha=alpha, side=side, weights=weights)
        share += math.prod(chances) * (evidence[-1] > math.log(1 / alpha))
    return share


@pytest.mark.parametrize("side", SIDES)
def test_the_mean_over_members_of_unequal_groups_is_rarely_refuted(side):
    """E[weight x value] / E[weight] = 0.3 / 0.475 = .63; the mean of the groups' means is .60."""
    mean = sum(w * x * p for w, x, p in GROUPS) / sum(w * p for w, _, p in GROUPS)

    assert refuted_share(mean, side) <= 0.2


def test_weights_of_1_change_nothing_and_unequal_ones_move_the_mean():
    values = mixture(60)
    sizes = np.where(values > 0.7, 1.0, 0.1)
    weighted = betting_sequence(values, weights=sizes)

    assert np.array_equal(betting_sequence(values, weights=np.ones(60)).lower, betting_sequence(values).lower)
    assert weighted.estimate[-1] == pytest.approx(np.average(values, weights=sizes))
    assert weighted.estimate[-1] > betting_sequence(values).estimate[-1] + 0.05


@settings(max_examples=choose_examples(40))
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.05, 0.3, 1.0])), min_size=1, max_size=30), ALPHAS)
def test_a_weighted_end_is_where_the_evidence_is_the_threshold(groups, alpha):
    values, weights = map(list, zip(*groups, strict=True))
    sequence = betting_sequence(values, alpha=alpha, weights=weights, alternative="greater")
    end = float(sequence.lower[-1])
    for mean, refuted in ((end - 1e-6, True), (end + 1e-6, False)):
        if 0 < mean < 1:
            evidence = evidence_against(values, mean=mean, bounds=(0, 1), alpha=alpha, side="lower", weights=weights)
            assert (evidence[-1] > math.log(1 / alpha)) == refuted


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [0.5, 1.5]])
def test_weights_that_are_no_shares_of_the_largest_are_refused(weights):
    with pytest.raises(ValueError, match="give each value its group's size over the largest size"):
        betting_sequence([0.5, 0.5], weights=weights)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.3, 0.5])
def test_no_sequence_of_bits_is_refuted_too_often(p):
    """All 2^10 sequences, looked at after each bit: the two-sided sequence errs with at most alpha."""
    ever = 0.0
    for bits in itertools.product((0.0, 1.0), repeat=10):
        chance = p ** sum(bits) * (1 - p) ** (10 - sum(bits))
        ever += chance * (betting_sequence(bits, alpha=0.2).first_exclusion(p) is not None)

    assert 0 < ever <= 0.2


@pytest.mark.parametrize("intersect", [True, False])
def test_the_ends_lie_between_the_neighbours_of_a_fine_grid(intersect):
    """A grid of 2,000 means brackets each end; the root must lie inside the bracket."""
    values, alpha = mixture(80), 0.1
    grid = np.linspace(0.0005, 0.9995, 2000)
    lower = np.array([wealth_by_hand(values, m, alpha / 2) > 2 / alpha for m in grid])
    upper = np.array([wealth_by_hand(1 - values, 1 - m, alpha / 2) > 2 / alpha for m in grid])
    if intersect:
        lower, upper = np.logical_or.accumulate(lower, axis=1), np.logical_or.accumulate(upper, axis=1)
    step = grid[1] - grid[0]

    sequence = betting_sequence(values, alpha=alpha, intersect=intersect)

    for n in range(80):
        refuted = np.append(0.0, grid[lower[:, n]])
        left = np.append(grid[upper[:, n]], 1.0)
        assert refuted.max() <= sequence.lower[n] <= refuted.max() + step
        assert left.min() - step <= sequence.upper[n] <= left.min()


@pytest.mark.parametrize("n", [1, 2, 30, 500])
@pytest.mark.parametrize("values", [0.0, 0.3, 1.0])
def test_at_the_end_the_wealth_is_the_threshold(n, values):
    """Equal values are the hardest for the search: the end moves with each of them."""
    sequence = betting_sequence(np.full(n, values), alpha=0.1)
    for end, alternative in ((sequence.lower[-1], "greater"), (sequence.upper[-1], "less")):
        if 0 < end < 1:
            wealth = (
                wealth_by_hand(np.full(n, values), end, 0.05)
                if alternative == "greater"
                else wealth_by_hand(1 - np.full(n, values), 1 - end, 0.05)
            )

            assert wealth.max() == pytest.approx(20, rel=1e-5)
        else:
            assert n < 30 or values == end


@settings(max_examples=choose_examples(60))
@given(SCORES, st.sampled_from([0.1, 0.5, 0.9]), ALPHAS)
def test_a_mean_is_excluded_when_the_wealth_against_it_passed_the_threshold(values, mean, alpha):
    """So that the wealth and the one-sided sequence never contradict each other."""
    wealth = wealth_by_hand(np.array(values), mean, alpha)
    passed = wealth > 1 / alpha

    stopped = betting_sequence(values, alpha=alpha, alternative="greater").first_exclusion(mean)

    near = np.abs(wealth.max() * alpha - 1) < 1e-6
    assert near or stopped == (int(passed.argmax()) + 1 if passed.any() else None)


def test_ones_by_hand():
    """Against 1/2 every 1 wins half the wealth at most: 1.5^n, so that 1.5^10 > 40 refutes it after ten."""
    sequence = betting_sequence([1.0] * 12)

    assert sequence.first_exclusion(0.5) == 10
    assert sequence.lower[0] == 0.0
    assert sequence.upper.tolist() == [1.0] * 12


@settings(max_examples=choose_examples(60))
@given(SCORES, ALPHAS)
@example([1.0] * 40, 0.2)
@example([0.0] * 20 + [1.0] * 20, 0.2)
def test_sequences_are_nested_ordered_and_within_the_bounds(values, alpha):
    sequence = betting_sequence(values, alpha=alpha)

    assert (np.diff(sequence.lower) >= 0).all()
    assert (np.diff(sequence.upper) <= 0).all()
    assert sequence.lower.min() >= 0
    assert sequence.upper.max() <= 1
    assert (sequence.interval() is None) == (sequence.lower[-1] > sequence.upper[-1])
    forgetting = betting_sequence(values, alpha=alpha, intersect=False)
    assert sequence.lower == pytest.approx(np.maximum.accumulate(forgetting.lower), abs=2e-8)
    assert sequence.upper == pytest.approx(np.minimum.accumulate(forgetting.upper), abs=2e-8)


@settings(max_examples=choose_examples(60))
@given(SCORES, ALPHAS)
def test_mirrored_values_mirror_the_ends(values, alpha):
    single = betting_sequence(values, alpha=alpha)
    other = betting_sequence([1 - value for value in values], alpha=alpha)

    assert other.lower == pytest.approx(1 - single.upper, abs=1e-8)
    assert other.upper == pytest.approx(1 - single.lower, abs=1e-8)


@given(SCORES, ALPHAS)
def test_each_side_of_a_two_sided_sequence_is_one_sided_at_half_of_alpha(values, alpha):
    both = betting_sequence(values, alpha=alpha)
    greater = betting_sequence(values, alpha=alpha / 2, alternative="greater")
    less = betting_sequence(values, alpha=alpha / 2, alternative="less")

    assert both.lower.tolist() == greater.lower.tolist()
    assert both.upper.tolist() == less.upper.tolist()
    assert set(greater.upper) == {1.0}
    assert set(less.lower) == {0.0}


def test_values_that_drift_leave_no_mean_and_the_sequence_says_so():
    sequence = betting_sequence([0.2] * 300 + [0.8] * 300)

    assert sequence.empty_from == 381
    assert sequence.interval() is None
    assert sequence.lower[-1] > sequence.upper[-1]
    assert all(sequence.first_exclusion(mean) is not None for mean in (0.0, 0.3, 0.5, 1.0))
    assert "every mean is excluded from n=381 on" in str(sequence)


def test_pairs_are_bet_on_as_differences_within_twice_the_range():
    rng = np.random.default_rng(3)
    candidate, baseline = rng.integers(1, 6, 50), rng.integers(1, 6, 50)

    paired = paired_sequence(candidate, baseline, bounds=(1, 5), alternative="greater", alpha=0.1)

    by_hand = betting_sequence((candidate - baseline + 4) / 8, alternative="greater", alpha=0.1)
    assert paired.lower == pytest.approx(8 * by_hand.lower - 4, abs=1e-8)
    assert paired.first_exclusion(-4.0) is not None


# -- what is refused ----------------------------------------------------------------------------------------------


def test_values_that_only_rounding_moved_outside_are_taken():
    assert betting_sequence([0.1 + 0.2], bounds=(0.0, 0.3)).n == 1
