"""Gaffke's melded bounds: the law that defines them, and the bounds of one arm that they equal in special cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import gaffke_bound
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.differences import melded_bound, melded_p_value

RNG = np.random.default_rng(1)
GOOD, BAD = RNG.beta(9, 1, 20), np.where(RNG.random(15) < 0.3, 0.0, RNG.beta(9, 1, 15))
UNIT = (0.0, 1.0)
SCORES = st.lists(st.integers(0, 16).map(lambda value: value / 16), min_size=2, max_size=20)
ALPHAS = st.sampled_from([0.2, 0.05, 0.005])


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [(GOOD, BAD), (BAD, GOOD), (np.ones(20), BAD), (BAD, np.ones(20)), (0.5 + 0.01 * GOOD, BAD)],
    ids=["good, bad", "bad, good", "perfect, bad", "bad, perfect", "narrow, bad"],
)
def test_it_is_the_quantile_of_the_difference_of_weighted_means(candidate, baseline):
    rng = np.random.default_rng(2)
    ours = rng.dirichlet(np.ones(len(candidate) + 1), 100_000) @ np.append(candidate, 0.0)
    theirs = rng.dirichlet(np.ones(len(baseline) + 1), 100_000) @ np.append(baseline, 1.0)

    for alpha in (0.05, 0.01):
        bound = melded_bound(candidate, baseline, bounds=UNIT, alpha=alpha, side="lower")

        assert np.mean(ours - theirs <= bound) == pytest.approx(alpha, rel=0.1)


def test_beside_an_arm_that_cannot_vary_it_is_the_bound_of_the_other():
    """Weights cannot move a baseline whose values are all at the high end."""
    alone = gaffke_bound(GOOD, end=0.0, alpha=0.05, side="lower")

    assert melded_bound(GOOD, np.ones(30), bounds=UNIT, alpha=0.05, side="lower") == pytest.approx(alone - 1, abs=1e-6)
    upper = gaffke_bound(BAD, end=1.0, alpha=0.05, side="upper")
    assert melded_bound(np.zeros(30), BAD, bounds=UNIT, alpha=0.05, side="lower") == pytest.approx(-upper, abs=1e-6)


@pytest.mark.slow
@given(SCORES, SCORES, ALPHAS)
@settings(max_examples=choose_examples(60))
def test_the_bound_is_where_the_p_value_is_alpha_and_mirrors(candidate, baseline, alpha):
    low = melded_bound(candidate, baseline, bounds=UNIT, alpha=alpha, side="lower")

    assert -1 <= low <= 1
    assert melded_bound(baseline, candidate, bounds=UNIT, alpha=alpha, side="upper") == -low
    if abs(low) < 1 - 1e-6:
        below, above = (
            melded_p_value(candidate, baseline, null=low + step, bounds=UNIT, side="lower") for step in (-1e-6, 1e-6)
        )
        assert below <= alpha * (1 + 1e-3)
        assert above >= alpha * (1 - 1e-3)
        mirrored = melded_p_value(baseline, candidate, null=-low - 1e-6, bounds=UNIT, side="upper")
        assert mirrored == pytest.approx(above, rel=1e-6)


def test_clusters_of_one_are_independent_values_and_whole_ones_weigh_as_one():
    how = {"bounds": UNIT, "alpha": 0.05, "side": "lower"}
    plain = melded_bound(GOOD, BAD, **how)
    repeated = [np.repeat(arm, 3) for arm in (GOOD, BAD)]
    labels = [np.repeat(np.arange(len(arm)), 3) for arm in (GOOD, BAD)]

    assert melded_bound(GOOD, BAD, clusters=(range(20), range(15)), **how) == plain
    assert melded_bound(*repeated, clusters=tuple(labels), **how) == pytest.approx(plain, abs=1e-6)


def test_refusals():
    with pytest.raises(NotEnoughData, match="at least 2"):
        melded_bound([0.5], [0.5, 1.0], bounds=UNIT, alpha=0.05, side="lower")
    with pytest.raises(NotEnoughData, match="4 clusters"):
        melded_bound(GOOD, BAD, bounds=UNIT, alpha=0.05, side="lower", clusters=(range(20), [1, 2, 3, 4, 4] * 3))
    for bounds in ((0.0, math.inf), (0.5, 1.0)):
        with pytest.raises(ValueError, match="end"):
            melded_bound(GOOD, BAD, bounds=bounds, alpha=0.05, side="lower")
    with pytest.raises(ValueError, match="alpha"):
        melded_bound(GOOD, BAD, bounds=UNIT, alpha=1.0, side="lower")
    with pytest.raises(ValueError, match="side"):
        melded_p_value(GOOD, BAD, null=0.0, bounds=UNIT, side="both")
