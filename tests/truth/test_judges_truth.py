"""Coverage of judges' coefficients, corrected means, pooled effects and ratings, by seeded simulation.

Every limit is the nominal rate, or a worst cell that is named beside it, less four standard errors of the simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_sizes import choose_runs

from pytest_crucible.stats.agreement.coefficients import count_ratings
from pytest_crucible.stats.agreement.corrected import ppi_difference, ppi_mean
from pytest_crucible.stats.agreement.disagreement import SCALES
from pytest_crucible.stats.agreement.fleiss import fleiss_kappa, fleiss_kappa_test
from pytest_crucible.stats.agreement.gwet import gwet_ac1, gwet_ac2
from pytest_crucible.stats.agreement.intraclass import intraclass_correlation
from pytest_crucible.stats.agreement.kappa import cohen_kappa
from pytest_crucible.stats.agreement.krippendorff import krippendorff_alpha
from pytest_crucible.stats.agreement.position import position_bias
from pytest_crucible.stats.agreement.prevalence import rogan_gladen
from pytest_crucible.stats.synthesis.meta import meta_analysis
from pytest_crucible.stats.synthesis.ranking import compare_ratings, rank_intervals
from pytest_crucible.stats.synthesis.ratings import rate_judgements

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
    "fleiss": (3, lambda table, q: fleiss_kappa(count_ratings(table, levels=range(q))[0])),
    "gwet ac1": (2, lambda table, q: gwet_ac1(table, levels=range(q))),
    "gwet ac2": (3, lambda table, q: gwet_ac2(table, levels=range(q))),
}


@pytest.mark.parametrize(("n", "limit"), [(50, 0.89), (100, 0.925), (200, 0.935)])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.4, 0.3, 0.2, 0.1)], ids=["two categories", "four categories"])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_agreement_coefficients_cover_theirs(name, accuracy, shares, n, limit):
    """Worst cell: quadratic kappa .81 of four categories, .90 at n=50. (Categories of .85 and .15: Fleiss .36 has .88.)"""
    raters, coefficient = COEFFICIENTS[name]
    rng, runs = np.random.default_rng([1, n, len(shares)]), choose_runs(300)
    truth = coefficient(ratings(rng, 100_000, raters, shares, accuracy), len(shares)).value
    answers = [coefficient(ratings(rng, n, raters, shares, accuracy), len(shares)) for _ in range(runs)]

    assert at_least(sum(covers(answer.interval, truth) for answer in answers), runs, limit)


@pytest.mark.parametrize(("n", "limit"), [(50, 0.90), (200, 0.93)])
@pytest.mark.parametrize("scale", ["nominal", "ordinal"])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
def test_the_bootstrap_of_alpha_covers_it(scale, accuracy, n, limit):
    rng, runs, shares = np.random.default_rng([2, n]), choose_runs(200), (0.4, 0.3, 0.2, 0.1)
    many = ratings(rng, 100_000, 3, shares, accuracy).astype(np.intp)
    observed, expected = SCALES[scale](many, np.arange(4.0)).parts(np.ones((1, 100_000)))
    truth = 1 - float(observed[0] / expected[0])
    tables = [ratings(rng, n, 3, shares, accuracy) for _ in range(runs)]
    answers = [krippendorff_alpha(table, scale=scale, resamples=500, rng=run) for run, table in enumerate(tables)]

    assert at_least(sum(covers(answer.interval, truth) for answer in answers), runs, limit)


@pytest.mark.parametrize("n", [30, 100])
def test_raters_that_guess_are_found_to_agree_in_five_percent(n):
    rng, runs = np.random.default_rng([3, n]), choose_runs(1000)
    tables = [count_ratings(rng.integers(0, 3, (4, n)), levels=range(3))[0] for _ in range(runs)]

    assert at_least(sum(fleiss_kappa_test(table).p_value >= 0.05 for table in tables), runs, 0.94)


@pytest.mark.parametrize("n", [10, 50])
@pytest.mark.parametrize("form", ["1", "2", "3"])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_intraclass_correlations_are_covered(form, share, n):
    """Normal ratings; raters with means of their own (variance .1) in form 2 only."""
    rng, runs, own = np.random.default_rng([4, n]), choose_runs(600), 0.1 if form == "2" else 0.0
    units, means, noise = (rng.normal(size=(runs, *shape)) for shape in ((n, 1), (1, 4), (n, 4)))
    data = math.sqrt(share) * units + math.sqrt(own) * means + math.sqrt(1 - share - own) * noise
    answers = [intraclass_correlation(matrix, form=form) for matrix in data]

    assert at_least(sum(covers(answer.interval, share) for answer in answers), runs, 0.94)


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


@pytest.mark.parametrize("labels", [50, 200])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8, 0.95])
def test_rogan_gladen_covers_the_rate_of_another_population(rate, labels):
    """The labelled half right, half wrong answers; sensitivity .9, specificity .7."""
    rng, runs = np.random.default_rng([7, labels]), choose_runs(1000)
    case = np.arange(labels) % 2 == 0
    hits = 0
    for _ in range(runs):
        truth = rng.random(1000) < rate
        answer = rogan_gladen(case, biased_judge(rng, case, 0.9, 0.7), biased_judge(rng, truth, 0.9, 0.7))
        hits += covers(answer.interval, rate)

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


@pytest.mark.parametrize("k", [3, 5, 15])
@pytest.mark.parametrize("tau", [0.0, 0.2, 0.5])
def test_the_hartung_knapp_interval_covers_the_mean_effect(k, tau):
    """Standard errors from .1 to .4. Without the adjustment the worst cell is .83 (k=3, tau .5)."""
    rng, runs = np.random.default_rng([9, k]), choose_runs(2000)
    errors = rng.uniform(0.1, 0.4, (runs, k))
    effects = 0.3 + tau * rng.normal(size=(runs, k)) + errors * rng.normal(size=(runs, k))
    answers = [meta_analysis(*row) for row in zip(effects, errors, strict=True)]

    assert at_least(sum(covers(answer.interval, 0.3) for answer in answers), runs, 0.93)
    assert at_least(sum(covers(answer.tau2_interval, tau**2) for answer in answers), runs, 0.95 if tau else 0.975)


@pytest.mark.parametrize("clustered", [False, True])
def test_ratings_and_all_ranks_are_covered(clustered):
    """Six items, 600 judgements of 60 questions; two items are equal."""
    rng, runs, strengths = (
        np.random.default_rng([10, clustered]),
        choose_runs(300),
        np.array([1, 0.5, 0.5, 0, -0.5, -1.5]),
    )
    hits = ranked = 0
    for _ in range(runs):
        first = rng.integers(6, size=600)
        second = (first + rng.integers(1, 6, size=600)) % 6
        question = rng.integers(60, size=600)
        won = rng.random(600) < 1 / (1 + np.exp(strengths[second] - strengths[first]))
        judgements = zip(first.tolist(), second.tolist(), won.tolist(), strict=True)
        result = rate_judgements(judgements, clusters=question if clustered else None)
        hits += covers(compare_ratings(result, 0, 3).interval, 1.0)
        ranked += all(
            rank_interval.best <= 1 + (strengths > strengths[rank_interval.item]).sum()
            and rank_interval.worst >= 6 - (strengths < strengths[rank_interval.item]).sum()
            for rank_interval in rank_intervals(result)
        )

    assert at_least(hits, runs, 0.94)
    assert at_least(ranked, runs, 0.95)
