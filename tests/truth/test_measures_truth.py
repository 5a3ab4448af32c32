"""AUROC and calibration error where the truth is known: one-sided errors of the bounds, and false alarms of comparisons.

A limit is the nominal rate, or a worse one that is named beside it, and four standard errors of the simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs
from scipy.special import ndtri
from simulation import ALPHA, at_most

from pytest_crucible.measures import auroc, calibration
from pytest_crucible.measures.row import Prepared
from pytest_crucible.stats.classifiers import confidence_bins

pytestmark = pytest.mark.slow

RUNS = choose_runs(1000)
RARE = 0.07
"""Lower bounds of an area with 10 or 20 positives that scatter twice as wide as the negatives; all others hold alpha."""


def area_sample(rng, sizes, means, deviation=1.0, correlation=0.5, clusters=None) -> list[Prepared]:
    """Normal scores of one arm for each mean, correlated between arms; `clusters` of five share half of their variance."""
    positives, negatives = sizes
    n, arms = positives + negatives, len(means)
    shared = rng.normal(size=n) * math.sqrt(correlation)
    if clusters is not None:
        shared = rng.normal(size=int(clusters.max()) + 1)[clusters] * math.sqrt(correlation)
    labels = np.r_[np.ones(positives), np.zeros(negatives)]
    if clusters is not None:
        labels = labels[rng.permutation(n)]
    noise = rng.normal(size=(arms, n)) * math.sqrt(1 - correlation) + shared
    scores = np.where(labels == 1, noise * deviation + np.array(means)[:, None], noise)
    return [Prepared(values=score, strata=labels, clusters=clusters) for score in scores]


def shift(area: float, deviation: float = 1.0) -> float:
    """Return the distance of two normal laws with that area between them."""
    return float(ndtri(area)) * math.sqrt(1 + deviation**2)


@pytest.mark.parametrize("deviation", [1.0, 2.0])
@pytest.mark.parametrize("area", [0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize("sizes", [(10, 90), (90, 10), (20, 180), (50, 50)])
def test_the_bounds_of_an_area_err_as_seldom_as_they_say(sizes, area, deviation):
    rng, below, above = np.random.default_rng([*sizes, int(100 * area)]), 0, 0
    for _ in range(RUNS):
        reading, _ = auroc.bound(area_sample(rng, sizes, [shift(area, deviation)], deviation)[0], ALPHA)
        below += reading.lower > area
        above += reading.upper < area

    assert at_most(below, RUNS, RARE if min(sizes) < 50 and deviation > 1 else ALPHA)
    assert at_most(above, RUNS, ALPHA)


@pytest.mark.parametrize("area", [0.5, 0.8])
def test_the_bounds_of_an_area_hold_for_clusters(area):
    rng, clusters, below, above = np.random.default_rng(7), np.repeat(np.arange(40), 5), 0, 0
    for _ in range(RUNS):
        # Labels vary within clusters, so the shared part cancels in part, and the truth is that of single samples.
        reading, _ = auroc.bound(area_sample(rng, (80, 120), [shift(area)], clusters=clusters)[0], ALPHA)
        below += reading.lower > area
        above += reading.upper < area

    assert at_most(below, RUNS, ALPHA)
    assert at_most(above, RUNS, ALPHA)


@pytest.mark.parametrize("areas", [(0.7, 0.7), (0.95, 0.95), (0.85, 0.95)])
@pytest.mark.parametrize("sizes", [(10, 90), (30, 30), (50, 150)])
def test_a_difference_of_areas_errs_as_seldom_as_it_says(sizes, areas):
    rng, alarms, below, above = np.random.default_rng([*sizes, int(100 * areas[0])]), 0, 0, 0
    truth = areas[0] - areas[1]
    for _ in range(RUNS):
        ours, theirs = area_sample(rng, sizes, [shift(area) for area in areas])
        count = auroc.compare(ours, theirs, ALPHA)
        alarms += truth == 0 and count.p_value <= ALPHA
        below += count.lower > truth
        above += count.upper < truth

    assert at_most(alarms, RUNS, ALPHA)
    assert at_most(below, RUNS, ALPHA)
    assert at_most(above, RUNS, ALPHA)


# Confidences, and the accuracy that belongs to each.
CONFIDENCES = {
    "calibrated": (lambda rng, n: rng.uniform(0, 1, n), lambda c: c),
    "calibrated, mostly sure": (lambda rng, n: rng.beta(8, 1, n), lambda c: c),
    "overconfident": (lambda rng, n: rng.beta(8, 2, n), lambda c: np.clip(c - 0.15, 0, 1)),
    "two levels": (lambda rng, n: rng.choice([0.9, 1.0], n), lambda c: np.where(c < 1, 0.9, 0.97)),
    "wave": (lambda rng, n: rng.uniform(0, 1, n), lambda c: np.clip(c + 0.1 * np.sin(2 * np.pi * c), 0, 1)),
}


def gaps(confidence, accuracy, clusters=None) -> Prepared:
    return Prepared(values=accuracy - confidence, strata=confidence_bins(confidence), clusters=clusters)


def true_error(draw, chance) -> float:
    confidence = draw(np.random.default_rng(0), 400_000)
    sums = np.bincount(confidence_bins(confidence), weights=chance(confidence) - confidence)
    return float(np.abs(sums).sum() / confidence.size)


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("name", CONFIDENCES)
def test_the_bounds_of_a_calibration_error_err_as_seldom_as_they_say(name, n):
    draw, chance = CONFIDENCES[name]
    rng, truth, below, above = np.random.default_rng(n), true_error(draw, chance), 0, 0
    for _ in range(RUNS):
        confidence = draw(rng, n)
        accuracy = (rng.random(n) < chance(confidence)).astype(float)
        reading, _ = calibration.bound(gaps(confidence, accuracy), ALPHA)
        below += reading.lower > truth + 0.002  # the truth is itself simulated
        above += reading.upper < truth - 0.002

    assert at_most(below, RUNS, ALPHA)
    assert at_most(above, RUNS, ALPHA)


@pytest.mark.parametrize("name", ["calibrated", "overconfident"])
def test_the_bounds_of_a_calibration_error_hold_for_clusters(name):
    """Five samples of a cluster are right or wrong together."""
    draw, chance = CONFIDENCES[name]
    rng, truth, clusters, below, above = (
        np.random.default_rng(5),
        true_error(draw, chance),
        np.repeat(np.arange(40), 5),
        0,
        0,
    )
    for _ in range(RUNS):
        confidence = np.repeat(draw(rng, 40), 5)
        accuracy = (np.repeat(rng.random(40), 5) < chance(confidence)).astype(float)
        reading, _ = calibration.bound(gaps(confidence, accuracy, clusters), ALPHA)
        below += reading.lower > truth + 0.002
        above += reading.upper < truth - 0.002

    assert at_most(below, RUNS, ALPHA)
    assert at_most(above, RUNS, ALPHA)


@pytest.mark.parametrize("n", [50, 300])
@pytest.mark.parametrize(
    ("first", "second"), [("calibrated", "calibrated"), ("wave", "wave"), ("overconfident", "calibrated")]
)
def test_a_difference_of_calibration_errors_errs_as_seldom_as_it_says(first, second, n):
    """Arms on the same samples: one draw decides both answers, so that they go together."""
    pairs = CONFIDENCES[first], CONFIDENCES[second]
    truth = true_error(*pairs[0]) - true_error(*pairs[1])
    rng, runs, alarms, below, above = np.random.default_rng(n), choose_runs(400), 0, 0, 0
    for _ in range(runs):
        luck = rng.random(n)
        arms = []
        for draw, chance in pairs:
            confidence = draw(rng, n)
            arms.append(gaps(confidence, (luck < chance(confidence)).astype(float)))
        count = calibration.compare(*arms, ALPHA)
        alarms += first == second and count.p_value <= ALPHA
        below += count.lower > truth + 0.004
        above += count.upper < truth - 0.004

    assert at_most(alarms, runs, ALPHA)
    assert at_most(below, runs, ALPHA)
    assert at_most(above, runs, ALPHA)
