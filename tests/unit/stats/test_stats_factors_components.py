"""Variance tables of crossed factors, and what more levels of each would do to the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats import Source, fewest_levels_for, variance_components
from pytest_crucible.stats.factors.crossed import variance_table
from pytest_crucible.stats.factors.power import expected_half_width, with_levels

RNG = np.random.default_rng(16)
SAMPLES = Source(name="samples", levels=1000, dof=999, variance=2e-4)
PROMPTS = Source(name="prompts", levels=5, dof=4, variance=8e-4, floor=1e-4)


def drawn(n: int, levels: int, *, samples: float, prompts: float, noise: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    parts = rng.normal(0, samples, (n, 1)) + rng.normal(0, prompts, (1, levels))
    return parts + rng.normal(0, noise, (n, levels))


def test_the_table_finds_what_was_drawn():
    table = variance_table(drawn(2000, 200, samples=0.3, prompts=0.1, noise=0.2), ["prompts"])

    assert [part.name for part in table] == ["samples", "prompts", "residual"]
    assert [math.sqrt(part.variance) for part in table] == pytest.approx([0.3, 0.1, 0.2], rel=0.1)


def test_repeats_are_a_factor_without_effect_in_the_older_function():
    scores = RNG.random((40, 6))
    older, (samples, _, residual) = variance_components(scores), variance_table(scores, ["repeats"])

    # The older one counts what is common to a repeat as noise.
    assert samples.variance == pytest.approx(older.between, abs=0.002)
    assert residual.variance == pytest.approx(older.within, rel=0.02)


@pytest.mark.parametrize("prompts", [0.0, 0.05, 0.5])
def test_intervals_contain_the_truth(prompts):
    """At 95 %, in 400 tables: Williams's interval is approximate, and exact for the residual."""
    hits = np.zeros(3)
    for seed in range(400):
        table = variance_table(drawn(40, 5, samples=0.2, prompts=prompts, noise=0.3, seed=seed), ["prompts"])
        hits += [part.low <= truth**2 <= part.high for part, truth in zip(table, (0.2, prompts, 0.3), strict=True)]

    assert (hits >= 0.91 * 400).all(), hits


def test_lost_scores_leave_the_estimates_where_they_were():
    scores = drawn(400, 6, samples=0.3, prompts=0.1, noise=0.2)
    some = np.where(RNG.random(scores.shape) < 0.1, np.nan, scores)
    whole, rest = variance_table(scores, ["prompts"]), variance_table(some, ["prompts"])

    assert [part.variance for part in rest] == pytest.approx([part.variance for part in whole], rel=0.1)
    assert rest[2].levels == int((~np.isnan(some)).sum())


def test_two_factors_share_nothing():
    scores = drawn(300, 40, samples=0.3, prompts=0.1, noise=0.2)[:, :, None] + RNG.normal(0, 0.05, (1, 1, 30))
    table = {part.name: math.sqrt(part.variance) for part in variance_table(scores, ["prompts", "rounds"])}

    assert table["prompts"] == pytest.approx(0.1, rel=0.3)
    assert table["rounds"] == pytest.approx(0.05, rel=0.3)
    assert table["residual"] == pytest.approx(0.2, rel=0.05)


def test_more_of_the_factor_that_varies_narrows_the_interval():
    now = expected_half_width([SAMPLES, PROMPTS], 0.05)

    assert expected_half_width([SAMPLES, PROMPTS], 0.05, "samples", 2000) > 0.9 * now
    assert expected_half_width([SAMPLES, PROMPTS], 0.05, "prompts", 10) < 0.7 * now


def test_levels_to_halve_is_the_first_number_that_does():
    now = expected_half_width([SAMPLES, PROMPTS], 0.05)

    def half_width(name):
        return lambda levels: expected_half_width([SAMPLES, PROMPTS], 0.05, name, levels)

    enough = fewest_levels_for(half_width("prompts"), PROMPTS.levels, now / 2)

    assert enough is not None
    assert expected_half_width([SAMPLES, PROMPTS], 0.05, "prompts", enough) <= now / 2
    assert expected_half_width([SAMPLES, PROMPTS], 0.05, "prompts", enough - 1) > now / 2
    assert fewest_levels_for(half_width("samples"), SAMPLES.levels, now / 2) is None


@given(st.integers(2, 40), st.integers(10, 5000))
def test_what_is_expected_of_more_levels_is_what_more_levels_have(levels, n):
    """The parts of the variance that samples x levels noise has, at another size, by its formula."""
    noise, samples, prompts = 0.09, 0.04, 0.01
    now = [
        Source(name="samples", levels=100, dof=99, variance=samples / 100 + noise / 500),
        Source(name="prompts", levels=5, dof=4, variance=prompts / 5 + noise / 500, floor=noise / 500),
    ]
    then = with_levels(with_levels(now, "prompts", levels), "samples", n)

    assert then[0].variance == pytest.approx(samples / n + noise / (n * levels))
    assert then[1].variance == pytest.approx(prompts / levels + noise / (n * levels))
    assert then[1].floor == pytest.approx(noise / (n * levels))
