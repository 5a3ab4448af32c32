"""Rounding is no difference: neither a constant one, nor one that is shown as 0."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.measures import means, ratios
from pytest_crucible.measures.row import Prepared

SCORES = np.random.default_rng(3).random(400)
KINDS = {
    "bounded": (means.compare_means, {"kind": "bounded", "bounds": (0.0, 1.0)}),
    "on 0 to 100": (means.compare_means, {"kind": "bounded", "bounds": (0.0, 100.0)}),
    "unbounded": (means.compare_means, {"kind": "unbounded"}),
    "positive": (ratios.compare_geometric_means, {"kind": "positive", "bounds": (0.0, np.inf)}),
}


def compare_arms(kind, first, second, clusters=None):
    compare, facts = KINDS[kind]
    unit = facts.get("bounds", (0, 1))[1]
    unit = unit if np.isfinite(unit) else 1.0
    arms = (Prepared(values=unit * values, clusters=clusters, **facts) for values in (first, second))
    return compare(*arms, 0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clusters", [None, np.arange(400) // 4])
@pytest.mark.parametrize("noise", [1e-9, -5e-7, 1e-13])
def test_a_constant_difference_of_rounding_size_is_none(kind, clusters, noise):
    scores = np.clip(SCORES, 0.6, 0.9)
    single = compare_arms(kind, scores + noise, scores, clusters)

    assert (single.value, single.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_rounding(kind):
    scores = np.clip(SCORES, 0.01, 1)
    single = compare_arms(kind, scores.astype(np.float32).astype(float), scores)

    assert (single.value, single.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_difference_is_no_rounding(kind):
    scores = np.clip(SCORES, 0.3, 0.9)
    single = compare_arms(kind, scores + 1e-4, scores)

    assert single.value > 1e-5


def test_a_mean_that_would_be_shown_as_0_favours_no_arm():
    noise = np.random.default_rng(4).normal(0, 5e-6, 400)
    single = compare_arms("bounded", 0.5 + noise - noise.mean() - 5e-7, np.full(400, 0.5))

    assert (single.value, single.p_value) == (0.0, 1.0)
