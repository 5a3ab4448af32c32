"""Guards where the truth is known: coverage of areas, of recall and of F1, false alarms of comparisons, and chosen thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs
from scipy.special import ndtr
from simulation import ALPHA, at_most, show_share
from test_measures_truth import area_sample, shift

from pytest_crucible.measures import auroc, pooled
from pytest_crucible.measures.row import Prepared
from pytest_crucible.stats.classifiers import choose_threshold

pytestmark = pytest.mark.slow

RUNS = choose_runs(1000)
MISSES = 0.06
"""An interval of 95 % covers at least 94 %."""


@pytest.mark.parametrize("area", [0.7, 0.9, 0.97])
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("groups", [False, True], ids=["texts", "groups"])
def test_intervals_of_an_area_cover(n, area, groups):
    rng, missed = np.random.default_rng([n, int(100 * area)]), 0
    clusters = np.repeat(np.arange(n // 5), 5) if groups else None
    for _ in range(RUNS):
        (sample,) = area_sample(rng, (2 * n // 5, 3 * n // 5), [shift(area)], clusters=clusters)
        interval = auroc.estimate(sample, 0.95).interval
        missed += not interval.low <= area <= interval.high

    show_share(f"area {area} covered, n = {n}, {'groups' if groups else 'texts'}", RUNS - missed, RUNS)
    assert at_most(missed, RUNS, MISSES)


def span_sample(rng, n, rate, *, groups: bool, arms: int = 1) -> list[Prepared]:
    """Texts with no to four spans; spans of a text are found together in part, and those of a group of four texts, too."""
    clusters = np.arange(n) // 4 if groups else np.arange(n)
    whole = rng.binomial(4, 0.4, n)
    if not whole.sum():
        whole[0] = 1
    # A normal copula with correlations: 0.3 within a text, 0.2 more within a group; arms share half of that.
    shared = rng.normal(size=(1, n)) * math.sqrt(0.15) + rng.normal(size=(1, int(clusters.max()) + 1))[
        :, clusters
    ] * math.sqrt(0.1 if groups else 0.0)
    own = rng.normal(size=(arms, n)) * math.sqrt(0.15)
    rest = 1 - 0.3 - (0.1 if groups else 0.0)
    prepared = []
    for arm in range(arms):
        level = (shared[0] + own[arm]).repeat(whole) + rng.normal(size=int(whole.sum())) * math.sqrt(rest)
        detections = np.add.reduceat(
            np.append(ndtr(level) < rate, 0), np.minimum(np.cumsum(whole) - whole, int(whole.sum()))
        ) * (whole > 0)
        prepared.append(
            Prepared(
                values=detections.astype(float),
                strata=whole.astype(float),
                clusters=clusters if groups else None,
                bounds=(0.0, 1.0),
            )
        )
    return prepared


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("groups", [False, True], ids=["texts", "groups"])
def test_intervals_of_recall_cover(n, rate, groups):
    rng, missed, below, above = np.random.default_rng([n, int(100 * rate), groups]), 0, 0, 0
    for _ in range(RUNS):
        (sample,) = span_sample(rng, n, rate, groups=groups)
        interval, (bounds, _) = pooled.estimate(sample, 0.95).interval, pooled.bound_ratio(sample, ALPHA)
        missed += not interval.low <= rate <= interval.high
        below += bounds.lower > rate
        above += bounds.upper < rate

    show_share(f"recall {rate} covered, n = {n}, {'groups' if groups else 'texts'}", RUNS - missed, RUNS)
    assert at_most(missed, RUNS, MISSES)
    assert at_most(below, RUNS, ALPHA)
    assert at_most(above, RUNS, ALPHA)


@pytest.mark.parametrize("rate", [0.6, 0.9])
@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("groups", [False, True], ids=["texts", "groups"])
def test_equal_arms_seldom_differ_in_recall(n, rate, groups):
    rng, alarms, missed = np.random.default_rng([n, int(100 * rate), 7, groups]), 0, 0
    for _ in range(RUNS):
        difference = pooled.compare(*span_sample(rng, n, rate, groups=groups, arms=2), ALPHA)
        alarms += difference.p_value <= ALPHA
        missed += not difference.lower <= 0

    assert at_most(alarms, RUNS, MISSES)
    assert at_most(missed, RUNS, ALPHA)


@pytest.mark.parametrize("area", [0.8, 0.95])
@pytest.mark.parametrize("n", [100, 400])
def test_equal_arms_seldom_differ_in_average_precision(n, area):
    runs = RUNS // 5
    rng, alarms = np.random.default_rng([n, int(100 * area), 8]), 0
    for _ in range(runs):
        ours, theirs = area_sample(rng, (n // 3, n - n // 3), [shift(area)] * 2)
        alarms += pooled.compare_average_precision(ours, theirs, ALPHA).p_value <= ALPHA

    assert at_most(alarms, runs, MISSES)


@pytest.mark.parametrize(("n", "rate"), [(299, 0.01), (1000, 0.01), (200, 0.05), (1000, 0.1)])
@pytest.mark.parametrize("shape", ["continuous", "ties"])
def test_a_chosen_threshold_seldom_breaks_its_bound(n, rate, shape):
    rng, broken = np.random.default_rng([n, int(1000 * rate)]), 0
    levels = np.linspace(0, 1, 21)
    for _ in range(RUNS):
        scores = rng.random(n) ** 3
        scores = scores if shape == "continuous" else np.floor(scores * 20) / 20
        threshold = choose_threshold(scores, rate)
        # The true rate of scores of at least the threshold.
        at_least = (
            threshold
            if shape == "continuous"
            else levels[np.searchsorted(levels, threshold - 1e-9)]
            if threshold <= 1
            else 2.0
        )
        broken += 1 - min(at_least, 1.0) ** (1 / 3) > rate

    assert at_most(broken, RUNS, ALPHA)
