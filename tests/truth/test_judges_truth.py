"""Coverage of judges' kappa and of corrected means, by seeded simulation.

Every limit is the nominal rate, or a worst cell that is named beside it, less four standard errors of the simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs

from pytest_crucible.stats.agreement.corrected import ppi_difference, ppi_mean
from pytest_crucible.stats.agreement.kappa import cohen_kappa, position_bias

pytestmark = pytest.mark.slow


def at_least(hits: int, runs: int, limit: float) -> bool:
    return hits / runs >= limit - 4 * math.sqrt(limit * (1 - limit) / runs)


def covers(interval, truth: float) -> bool:
    return interval is not None and interval.low <= truth <= interval.high


def ratings(rng, n, raters, shares, accuracy):
    """Each rater sees the truth or draws from the shares of the categories."""
    truth, noise = rng.choice(len(shares), n, p=shares), rng.choice(len(shares), (raters, n), p=shares)
    return np.where(rng.random((raters, n)) < accuracy, truth, noise)


COEFFICIENTS = {
    "cohen": (2, lambda table, q: cohen_kappa(*table, levels=range(q))),
    "cohen quadratic": (2, lambda table, q: cohen_kappa(*table, levels=range(q), weights="quadratic")),
}


@pytest.mark.parametrize(("n", "limit"), [(50, 0.89), (100, 0.925), (200, 0.935)])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.4, 0.3, 0.2, 0.1)], ids=["two categories", "four categories"])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_agreement_coefficients_cover_theirs(name, accuracy, shares, n, limit):
    """Worst cell: quadratic kappa .81 of four categories, .90 at n=50."""
    raters, coefficient = COEFFICIENTS[name]
    rng, runs = np.random.default_rng([1, n, len(shares)]), choose_runs(300)
    truth = coefficient(ratings(rng, 100_000, raters, shares, accuracy), len(shares)).value
    answers = [coefficient(ratings(rng, n, raters, shares, accuracy), len(shares)) for _ in range(runs)]

    assert at_least(sum(covers(answer.interval, truth) for answer in answers), runs, limit)


def biased_judge(rng, truth, sensitivity, specificity):
    return np.where(truth, rng.random(truth.shape) < sensitivity, rng.random(truth.shape) >= specificity).astype(float)


@pytest.mark.parametrize("labels", [50, 200])
@pytest.mark.parametrize(("rate", "sensitivity", "specificity"), [(0.5, 0.8, 0.8), (0.7, 0.9, 0.6), (0.9, 0.9, 0.5)])
@pytest.mark.parametrize("lam", [None, 1.0], ids=["tuned", "plain"])
def test_a_biased_judge_does_not_bias_the_corrected_mean(lam, rate, sensitivity, specificity, labels):
    """1,000 judgements. Without bounds the worst cell is tuned, rate .9, 50 labels: .896; the judge alone covers 0."""
    rng, runs, n = np.random.default_rng([5, labels]), choose_runs(1000), labels + 1000
    truth = rng.random((runs, n)) < rate
    judged = biased_judge(rng, truth, sensitivity, specificity)
    rows = [
        (human[:labels].astype(float), judge[:labels], judge[labels:])
        for human, judge in zip(truth, judged, strict=True)
    ]
    bounded = sum(covers(ppi_mean(*row, lam=lam, bounds=(0, 1)).interval, rate) for row in rows)
    unbounded = sum(covers(ppi_mean(*row, lam=lam).interval, rate) for row in rows)

    assert at_least(bounded, runs, 0.94)
    assert at_least(unbounded, runs, 0.93 if rate < 0.9 or lam else 0.896)


@pytest.mark.parametrize("labels", [50, 200])
@pytest.mark.parametrize(("rate", "gained", "lost"), [(0.7, 0.10, 0.05), (0.8, 0.15, 0.15), (0.9, 0.05, 0.02)])
def test_a_judge_that_favours_one_arm_does_not_bias_the_difference(rate, gained, lost, labels):
    rng, runs, n = np.random.default_rng([6, labels]), choose_runs(800), labels + 1000
    baseline = rng.random((runs, n)) < rate
    flips = rng.random((runs, n))
    candidate = np.where(baseline, flips >= lost / rate, flips < gained / (1 - rate))
    judged = biased_judge(rng, candidate, 0.95, 0.7), biased_judge(rng, baseline, 0.85, 0.8)
    human = candidate.astype(float), baseline.astype(float)
    for arm in human:
        arm[:, labels:] = math.nan
    hits = sum(
        covers(
            ppi_difference(human[0][run], human[1][run], judged[0][run], judged[1][run], bounds=(0, 1)).interval,
            gained - lost,
        )
        for run in range(runs)
    )

    assert at_least(hits, runs, 0.94)


@pytest.mark.parametrize("n", [30, 200])
def test_swapping_takes_the_preferred_place_out_of_the_win_rate(n):
    """The judge takes the first in 30 % of all verdicts; the candidate is better in 60 %."""
    rng, runs = np.random.default_rng([8, n]), choose_runs(1000)
    hits = false_alarms = 0
    for _ in range(runs):
        better = rng.random(n) < 0.6
        pulled = rng.random((2, n)) < 0.3
        biased = position_bias(np.where(pulled[0], 1, better), np.where(pulled[1], 0, better))
        hits += covers(biased.win_interval, 0.3 * 0.5 + 0.7 * 0.6)
        noise = rng.random((2, n)) < 0.2
        fair = position_bias(better ^ noise[0], better ^ noise[1])
        false_alarms += fair.p_value < 0.05

    assert at_least(hits, runs, 0.94)
    assert at_least(runs - false_alarms, runs, 0.95)
