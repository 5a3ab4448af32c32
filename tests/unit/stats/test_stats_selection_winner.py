"""The winner corrected for its selection: limits, symmetries, ties, bounds and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.stats import mean_interval, winner_from_values
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.selection.max_t import joint_means
from pytest_crucible.stats.selection.winner import Truncation, share_below, solve_truncated_mean, winner_from_estimates


def draw_scores(arms: int = 4, n: int = 60, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, arms))


def test_a_clear_winner_has_the_t_interval_of_its_own():
    scores = draw_scores() + np.array([0.0, 0.0, 9.0, 0.0])
    result, own = winner_from_values(scores), mean_interval(scores[:, 2])

    assert result.arm == 2
    assert result.estimate == pytest.approx(result.naive, abs=1e-12)
    assert (result.naive_interval.low, result.naive_interval.high) == pytest.approx((own.low, own.high))
    assert (result.conditional_interval.low, result.conditional_interval.high) == pytest.approx((own.low, own.high))
    # The hybrid pays a tenth of alpha for its simultaneous interval.
    assert 1.0 < (result.interval.high - result.interval.low) / (own.high - own.low) < 1.03


def test_the_correction_lowers_a_winner_by_a_small_lead():
    result = winner_from_estimates([0.6, 0.61, 0.5], 0.01 * np.identity(3))

    assert result.arm == 1
    assert result.conditional_interval.low < result.conditional < result.interval.low < result.estimate < 0.61
    assert result.naive == 0.61


def test_clusters_have_the_errors_of_their_totals():
    scores, labels = draw_scores(), np.arange(60) // 4
    joint, alone = joint_means(scores, labels), [clustered_mean(arm, labels) for arm in scores.T]

    assert np.sqrt(np.diag(joint.covariance)) == pytest.approx([mean.se for mean in alone])
    assert joint.dof == pytest.approx(alone[0].dof)
    assert joint_means(scores).covariance == pytest.approx(np.cov(scores.T) / 60)


def test_bounds_add_one_pseudo_observation_at_each():
    bits = (draw_scores() > 0).astype(float)
    longer = np.vstack([bits, np.zeros(4), np.ones(4)])
    joint, whole = joint_means(bits, bounds=(0.0, 1.0)), joint_means(longer)

    assert joint.means == pytest.approx(whole.means)
    assert joint.covariance == pytest.approx(whole.covariance)
    assert (joint.n, joint.dof) == (60, pytest.approx(61.0))


def test_yes_and_no_have_bounds_without_declaring_them():
    bits = (draw_scores() > 0).astype(float)

    assert winner_from_values(bits) == winner_from_values(bits, bounds=(0.0, 1.0))
    assert winner_from_values(bits) != winner_from_values(bits, bounds=(-math.inf, math.inf))


def test_an_arm_that_is_always_right_has_an_interval_below_1():
    bits = (draw_scores() > 0).astype(float)
    bits[:, 1] = 1.0
    result = winner_from_values(bits)

    assert (result.arm, result.naive) == (1, 1.0)
    assert 0.85 < result.interval.low < 0.99
    assert result.interval.high <= 1.0


def test_a_tie_goes_to_the_first_arm_and_keeps_a_finite_interval():
    bits = (draw_scores(arms=2) > 0).astype(float)
    tied = np.column_stack([bits[:, 0], np.roll(bits[:, 0], 7)])
    result = winner_from_values(tied)

    assert result.arm == 0
    assert result.naive - 0.2 < result.estimate < result.naive
    assert result.conditional_interval.low >= 0.0


@pytest.mark.parametrize("seed", range(4, 16))
def test_every_interval_has_a_length_whatever_ties(seed):
    rng = np.random.default_rng(seed)
    bits = (0.5 * rng.random((100, 8)) + 0.5 * rng.random((100, 1)) < 0.55).astype(float)
    result = winner_from_values(bits)

    assert result.arm == int(bits.sum(axis=0).argmax())
    assert result.interval.low < result.estimate <= result.naive
    assert result.interval.high - result.interval.low > 0.15


def test_an_arm_with_the_same_values_is_no_rival():
    scores = draw_scores(arms=2) + np.array([9.0, 0.0])
    result = winner_from_values(np.column_stack([scores, scores[:, 0]]))

    assert result.arm == 0
    assert result.estimate == pytest.approx(result.naive)


@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
@pytest.mark.parametrize("low", [-30.0, -0.7, -0.001])
@pytest.mark.parametrize(("high", "reach"), [(math.inf, math.inf), (0.2, math.inf), (math.inf, 3.5)])
def test_the_solved_mean_has_the_share(share, low, high, reach):
    truncation = Truncation(low=low, high=high, reach=reach)

    assert share_below(truncation, solve_truncated_mean(truncation, share)) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize(
    ("estimates", "covariance", "message"),
    [
        ([0.5], [[1.0]], "1 estimates need"),
        ([0.5, 0.6], [[1.0]], "2 estimates need"),
        ([0.5, 0.6], [[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([0.5, 0.5], np.identity(2), "two of 2 estimates tie"),
        ([0.5, math.nan], np.identity(2), "1 of 2 estimates"),
    ],
)
def test_bad_input_is_refused(estimates, covariance, message):
    with pytest.raises(ValueError, match=message):
        winner_from_estimates(estimates, covariance)


def test_too_little_data_is_refused():
    with pytest.raises(NotEnoughData, match="1 sample: comparing arms needs at least 2"):
        winner_from_values([[0.5, 0.6]])
    with pytest.raises(NotEnoughData, match="4 clusters: comparing arms needs at least 5"):
        winner_from_values(draw_scores(), clusters=np.arange(60) // 15)
    with pytest.raises(NotEnoughData, match="arm 1 of 2 does not vary"):
        winner_from_values([[0.5, 0.6], [0.4, 0.6]])
    with pytest.raises(ValueError, match="outside"):
        winner_from_values(draw_scores(), bounds=(0.0, 1.0))


def test_the_line_names_both_estimates():
    line = str(winner_from_estimates([0, 1, 2, 3, 4], np.identity(5)))

    assert line == "arm 4 of 5: 3.7 [0.9, 6.0], without correction 4 (hybrid)"
