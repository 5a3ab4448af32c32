"""Marginal means of settings: which cells count, and laws of their intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pytest_crucible.stats import marginal_means
from pytest_crucible.stats.factors.marginal_means import arrange_grid
from pytest_crucible.stats.interval import NotEnoughData

RNG = np.random.default_rng(2)
POINTS = [
    {"steps": steps, "rank": rank, "alpha": 16, "seed": seed}
    for steps, rank, seed in itertools.product((9, 30, 90), (8, 32), (1, 2, 3))
]
SCORES = (
    RNG.normal(0.5, 0.2, (60, 1)) + RNG.normal(0.0, 0.1, (60, 18)) + np.repeat([0.0, 0.02, 0.1, 0.12, 0.2, 0.22], 3)
)


def drop_members(*members: int) -> np.ndarray:
    values = SCORES.copy()
    values[:, list(members)] = np.nan
    return values


def test_levels_are_averaged_over_the_other_settings():
    result = marginal_means(SCORES, POINTS)
    means = {(single.setting, single.level): single for single in result.means}

    assert list(means) == [("steps", 9), ("steps", 30), ("steps", 90), ("rank", 8), ("rank", 32)]
    assert means["steps", 30].mean == pytest.approx(SCORES[:, 6:12].mean())
    assert (means["steps", 30].trainings, means["steps", 30].cells) == (6, 2)
    assert means["rank", 8].mean == pytest.approx(SCORES[:, [0, 1, 2, 6, 7, 8, 12, 13, 14]].mean())
    assert [(single.level, single.other) for single in result.differences] == [(30, 9), (90, 9), (90, 30), (32, 8)]
    assert result.differences[1].difference == pytest.approx(means["steps", 90].mean - means["steps", 9].mean)
    assert (result.differences[1].trainings, result.n, result.cells, result.incomplete) == (12, 60, 6, 0)


def test_a_cell_that_lost_a_member_is_left_out_of_all_levels():
    """Without (9, 32) only rank 8 has all steps, and only 30 and 90 steps have both ranks."""
    result = marginal_means(drop_members(4), POINTS)
    means = {(single.setting, single.level): single for single in result.means}

    assert result.incomplete == 1
    assert means["steps", 90].mean == pytest.approx(SCORES[:, 12:15].mean())
    assert means["rank", 32].mean == pytest.approx(SCORES[:, [9, 10, 11, 15, 16, 17]].mean())
    differences = {(single.level, single.other): single.cells for single in result.differences}
    assert differences == {(30, 9): 1, (90, 9): 1, (90, 30): 2, (32, 8): 2}


def test_a_level_without_a_whole_cell_is_not_shown():
    result = marginal_means(drop_members(0, 3), POINTS)

    assert {single.level for single in result.means if single.setting == "steps"} == {30, 90}
    assert result.incomplete == 2


def test_levels_without_a_common_combination_are_not_compared():
    """(9, 8) and (30, 32) are left of steps x rank."""
    points = [single for single in POINTS if single["steps"] != 90]
    result = marginal_means(drop_members(3, 6)[:, :12], points)

    assert result.means == ()
    assert result.differences == ()
    assert result.without_means == ("steps", "rank")


def test_one_seed_allows_no_claim():
    single = [k for k, item in enumerate(POINTS) if item["seed"] == 1]
    with pytest.raises(NotEnoughData, match="one training of each setting"):
        marginal_means(SCORES[:, single], [POINTS[k] for k in single])
    with pytest.raises(NotEnoughData, match="one training of each setting"):
        marginal_means(SCORES[:, :2], [{"steps": 1}, {"steps": 2}])


def test_checkpoints_of_one_training_are_no_further_trainings():
    """Three trainings with two checkpoints: the difference varies as that of three pairs."""
    trained = RNG.normal(0.0, 0.1, 3)
    points = [{"at": at, "seed": seed} for at in (30, 60) for seed in (1, 2, 3)]
    values = 0.5 + np.tile(np.concatenate([trained, trained + np.array([0.05, 0.06, 0.07])]), (4, 1))
    [together] = marginal_means(values, points, trainings=[1, 2, 3] * 2).differences
    [apart] = marginal_means(values, points).differences

    assert together.trainings == 3
    # R: t.test(c(0.05, 0.06, 0.07)) has the interval 0.0352 to 0.0848.
    assert (together.interval.low, together.interval.high) == pytest.approx((0.0352, 0.0848), abs=1e-4)
    assert apart.interval.high > together.interval.high


def test_trainings_that_do_not_vary_leave_the_noise_of_samples():
    values = np.repeat(SCORES[:, [0, 6]], 3, axis=1)
    points = [{"steps": steps, "seed": seed} for steps in (9, 30) for seed in (1, 2, 3)]
    [pair] = marginal_means(values, points).differences
    differences = values[:, 3] - values[:, 0]

    assert pair.interval.high - pair.difference == pytest.approx(2.000995 * differences.std(ddof=1) / 60**0.5, rel=1e-5)


def test_more_trainings_shorten_intervals_and_more_samples_do_not_where_trainings_vary():
    trained = np.tile(RNG.normal(0.5, 0.1, 10), (50, 1)) + RNG.normal(0.0, 0.01, (50, 10))
    points = [{"steps": steps, "seed": seed} for steps in (9, 30) for seed in range(5)]
    three = [0, 1, 2, 5, 6, 7]
    [few] = marginal_means(trained[:, three], [points[k] for k in three]).differences
    [many] = marginal_means(trained, points).differences
    [longer] = marginal_means(np.tile(trained, (4, 1)), points).differences

    assert _width(few) > _width(many)
    assert _width(longer) == pytest.approx(_width(many), rel=0.02)


def _width(single) -> float:
    return single.interval.high - single.interval.low


def test_differences_are_adjusted_together():
    result = marginal_means(SCORES, POINTS)

    assert all(single.p_adjusted >= single.p_value for single in result.differences)
    assert min(single.p_adjusted for single in result.differences) == pytest.approx(
        4 * min(single.p_value for single in result.differences)
    )


def test_intervals_of_means_stay_within_the_bounds():
    right = (RNG.random((40, 18)) < 0.97).astype(float)
    result = marginal_means(right, POINTS, bounds=(0.0, 1.0))

    assert max(single.interval.high for single in result.means) == 1.0


def test_values_that_do_not_vary_have_no_error():
    with pytest.raises(NotEnoughData, match="neither samples nor trainings vary"):
        marginal_means(np.ones((20, 18)), POINTS)


def test_settings_with_one_value_are_none():
    assert arrange_grid(POINTS, "seed", [True] * 18).settings == ("steps", "rank")
