"""Rates at which a trend marks a false change: runs of one law, looked at together."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_most

from pytest_crucible.analyse.run_statistics import RunScores, trend
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.records import MetricFacts

pytestmark = pytest.mark.slow

TRENDS, RUNS, SAMPLES = choose_runs(600), 5, 120
FACTS = {
    "binary": MetricFacts(name="m", kind="binary", low=0.0, high=1.0),
    "bounded": MetricFacts(name="m", kind="bounded", low=0.0, high=1.0),
}


def drawn(kind: str, draw: np.random.Generator) -> list[RunScores]:
    """Each sample has a difficulty of its own, so that runs are alike sample by sample."""
    ease = draw.beta(2, 1, SAMPLES)
    none = np.zeros(SAMPLES, dtype=bool)
    runs = []
    for k in range(RUNS):
        values = (draw.random(SAMPLES) < ease).astype(float) if kind == "binary" else draw.beta(4 * ease + 0.1, 2)
        scores = Scores(values, values, values, none, none)
        runs.append(RunScores(run=str(k), started="", arm="v2", dataset="d", scores=scores, clusters=None))
    return runs


@pytest.mark.parametrize("kind", FACTS)
def test_a_trend_without_a_change_shows_one_in_a_twentieth_of_all_cases_at_most(kind):
    draw = np.random.default_rng(11)
    wrong = sum(any(entry.change for entry in trend(FACTS[kind], drawn(kind, draw), alpha=0.05)) for _ in range(TRENDS))

    assert at_most(wrong, TRENDS, 0.05)
