"""The interval of a crossed mean with more levels: it starts from the one that is shown, and predicts what more levels have."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import NextInterval, crossed_interval, crossed_mean, fewest_levels_for
from pytest_crucible.stats.factors.power import _shrink, with_levels
from pytest_crucible.stats.factors.sources import Source


def drawn(n: int, prompts: int, seed: int) -> np.ndarray:
    """Scores of samples x prompts between 0 and 1, which differ by both, and by chance."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.08, (1, prompts))
    return np.clip(0.5 + level + rng.normal(0, 0.1, (n, prompts)), 0, 1)


def half_width(mean, bounds) -> float:
    interval = crossed_interval(mean, bounds=bounds)
    return (interval.high - interval.low) / 2


@pytest.mark.parametrize("bounds", [(0.0, 1.0), None, (0.0, float("inf"))], ids=["bounded", "unbounded", "one end"])
def test_with_the_levels_that_there_are_it_is_the_interval_that_is_shown(bounds):
    mean = crossed_mean(drawn(60, 12, seed=0), ["prompts"])

    following = NextInterval(mean, 0.05, bounds)

    assert following.half_width("prompts", 12) == pytest.approx(half_width(mean, bounds))
    assert following.half_width("samples", 60) == pytest.approx(half_width(mean, bounds))
    for name, levels in (("prompts", 12), ("samples", 60)):
        widths = [following.half_width(name, times * levels) for times in range(1, 9)]
        assert widths == sorted(widths, reverse=True)


def test_it_predicts_what_twice_the_levels_have():
    """Averages of 40 runs; the prediction rests on the spread of 12 prompts."""
    predicted, measured = [], []
    for seed in range(40):
        following = NextInterval(crossed_mean(drawn(60, 12, seed), ["prompts"]), 0.05, (0.0, 1.0))
        predicted.append(following.half_width("prompts", 24))
        measured.append(half_width(crossed_mean(drawn(60, 24, 1000 + seed), ["prompts"]), (0.0, 1.0)))

    assert np.mean(predicted) == pytest.approx(np.mean(measured), rel=0.08)


def test_levels_that_are_alike_shut_out_rare_others_only_by_their_number():
    mean = crossed_mean(np.full((50, 3), 0.5) + np.linspace(-0.1, 0.1, 50)[:, None], ["prompts"])

    following = NextInterval(mean, 0.05, (0.0, 1.0))

    # 0.025^(1 / k) is the share that k alike levels leave in reach.
    widths = [following.half_width("prompts", levels) for levels in (3, 6, 60)]
    assert widths == pytest.approx([0.5 * (1 - 0.025 ** (1 / levels)) for levels in (3, 6, 60)], abs=0.03)
    assert fewest_levels_for(lambda levels: following.half_width("prompts", levels), 3, widths[0] / 2) == pytest.approx(
        7, abs=2
    )


def test_a_factor_whose_floor_exceeds_the_variance_of_the_samples_leaves_none_of_it():
    samples = Source(name="samples", levels=60, dof=59, variance=0.0001)
    prompts = Source(name="prompts", levels=3, dof=2, variance=0.004, floor=0.003)

    after = with_levels([samples, prompts], "prompts", 6)[0]

    assert after.variance < 0
    assert _shrink(samples, after) == 0.0
