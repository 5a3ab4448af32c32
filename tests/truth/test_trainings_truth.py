"""Targets on several trainings: how often their bound claims what is not so, for losses that vary by factors."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import ALPHA, at_least, at_most

from pytest_crucible.features.training.numbers import average_trainings
from pytest_crucible.stats import t_bound

pytestmark = pytest.mark.slow

RUNS = choose_runs(8000)
SHARES = {
    "lognormal, 0.3": lambda draw, size: draw.lognormal(-3, 0.3, size),
    "lognormal, 1": lambda draw, size: draw.lognormal(-3, 1.0, size),
    "normal, 10 %": lambda draw, size: draw.normal(0.05, 0.005, size),
    "normal, 25 %": lambda draw, size: np.maximum(draw.normal(0.05, 0.0125, size), 1e-4),
    "gamma, 50 %": lambda draw, size: draw.gamma(4, 0.0125, size),
    "uniform": lambda draw, size: draw.uniform(0.02, 0.08, size),
}
"""Shares of the first loss that are left at the end, over seeds."""


def geometric_mean(share: str) -> float:
    return float(np.exp(np.log(SHARES[share](np.random.default_rng(1), 2_000_000)).mean()))


@pytest.mark.parametrize("trainings", [3, 5])
@pytest.mark.parametrize("share", SHARES)
def test_a_reduction_is_seldom_proven_where_there_is_none(share, trainings):
    reduction = 1 - geometric_mean(share)
    drawn = 1 - SHARES[share](np.random.default_rng(2), (RUNS, trainings))
    means = [average_trainings("loss_reduction", row.tolist(), alpha=ALPHA, is_random=True) for row in drawn]

    assert at_most(sum(mean.bounds.lower > reduction for mean in means), RUNS, ALPHA)
    assert at_least(sum(mean.interval.low <= reduction <= mean.interval.high for mean in means), RUNS, 0.92)


@pytest.mark.parametrize("trainings", [3, 5])
@pytest.mark.parametrize(("sigma", "rate"), [(0.3, 0.087), (1.0, 0.232)])
def test_plain_numbers_prove_false_reductions(sigma, rate, trainings):
    reduction = 1 - np.exp(-3 + sigma**2 / 2)
    drawn = 1 - np.random.default_rng(3).lognormal(-3, sigma, (RUNS, trainings))
    proven = sum(t_bound(row, alpha=ALPHA, side="lower") > reduction for row in drawn)

    assert proven / RUNS == pytest.approx(rate, abs=4 * (rate * (1 - rate) / RUNS) ** 0.5)
