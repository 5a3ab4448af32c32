"""Relevant differences where the truth is known: what is proven at them, and what is missed where little or much differs."""

from __future__ import annotations

import pytest
from relevance import ALPHA, RELEVANT, shares
from run_sizes import choose_runs
from simulation import at_least, at_most

from pytest_crucible.plan.power import DISCORDANCE
from pytest_crucible.stats.planning.next_sample import samples_for_paired_change, samples_for_paired_margin

pytestmark = pytest.mark.slow

N, RUNS = 200, choose_runs(250)


@pytest.mark.parametrize("name", RELEVANT)
def test_at_the_relevant_difference_equivalence_is_rarely_proven(name):
    worse, better = (shares(RELEVANT[name], N, truth, RUNS, seed=1) for truth in (-1.0, 1.0))

    for share in (worse.not_worse, worse.equivalent, better.equivalent):
        assert at_most(round(share * RUNS), RUNS, ALPHA)
    # Half as large, it is: else the error rate would be met by proving nothing.
    assert shares(RELEVANT[name], 3 * N, -0.2, 40, seed=2).not_worse > 0.3


@pytest.mark.parametrize("name", RELEVANT)
def test_a_relevant_difference_adds_no_miss_to_equal_arms_and_removes_none_of_unequal_ones(name):
    equal, twice = (shares(RELEVANT[name], N, truth, RUNS, seed=3) for truth in (0.0, -2.0))

    assert equal.missed <= equal.missed_without
    assert at_most(round(equal.missed_without * RUNS), RUNS, ALPHA / 2)
    assert twice.missed == twice.missed_without > 0.85


def test_a_small_regression_that_is_proven_is_no_longer_missed():
    little = shares(RELEVANT["1 in 20 loses .6 to 1, relevant .04"], 2 * N, -0.2, RUNS, seed=4)

    assert little.missed < little.missed_without / 3
    assert little.equivalent > 0.9


def test_the_samples_that_the_plan_names_resolve_the_relevant_difference():
    """80 % power for both: to miss a candidate that is worse by it, and to prove an equal one equivalent."""
    evaluation, runs = RELEVANT["yes or no, 20 % differ, relevant .05"], 250
    detects = samples_for_paired_change(evaluation.relevant, DISCORDANCE, alpha=ALPHA)
    proves = samples_for_paired_margin((-evaluation.relevant, evaluation.relevant), DISCORDANCE, alpha=ALPHA)
    missed, equivalent = (
        shares(evaluation, detects, -1.0, runs, seed=5).missed,
        shares(evaluation, proves, 0.0, runs, seed=6).equivalent,
    )

    for share in (missed, equivalent):
        assert at_least(round(share * runs), runs, 0.8)
        assert at_most(round(share * runs), runs, 0.8)
