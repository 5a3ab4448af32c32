"""A training that changes nothing has a checkpoint that is "better than the base" in at most 5 % of curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from experiment_builders import store_run
from run_sizes import choose_runs
from simulation import ALPHA, at_least, at_most

from pytest_crucible.features.registry.curve import Curve, measure_curves
from pytest_crucible.records import Sample
from pytest_crucible.store.runs import RunStore

pytestmark = pytest.mark.slow

RUNS = choose_runs(320)
SAMPLES = [Sample(id=f"q{k:02}", input=k) for k in range(60)]
CHECKPOINTS = {f"step{k}": str(k) for k in range(8)}
BASE = "base"


def draw_curves(folder: Path) -> Iterator[Curve]:
    """Yield curves of checkpoints that are as good as the base: samples are easy or hard for all of them."""
    random, store = np.random.default_rng(23), RunStore(str(folder / "runs.db"))
    *before, last = CHECKPOINTS
    arms = (last, BASE, *before)
    for run in range(RUNS):
        is_right = random.random((len(arms), len(SAMPLES))) < random.beta(2, 2, len(SAMPLES))
        store_run(store, f"run{run}", SAMPLES, **dict(zip(arms, is_right.tolist(), strict=True)))
        yield from measure_curves(store, f"run{run}", CHECKPOINTS, BASE).curves
    store.close()


def test_a_training_that_changes_nothing_rarely_has_a_better_checkpoint(tmp_path):
    curves = list(draw_curves(tmp_path))
    smallest = [min(point.comparison.p_value for point in curve.points) for curve in curves]

    assert at_most(sum(curve.first_better is not None for curve in curves), RUNS, ALPHA)
    # Each comparison by itself would find one far more often.
    assert at_least(sum(p_value <= ALPHA for p_value in smallest), RUNS, 0.15)
