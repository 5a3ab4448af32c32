"""How long a confidence sequence takes that is looked at after each of 10,000 samples, and how much memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.figures import Figure, show
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.sequential.betting import betting_sequence
from pytest_crucible.stats.sequential.paced_bets import betting_bound

SAMPLES = 10_000
_RNG = np.random.default_rng(0)
SHAPES = {
    "bits": (_RNG.random(SAMPLES) < 0.7).astype(float),
    "scores": _RNG.beta(2, 5, SAMPLES),
    "all equal (worst)": np.full(SAMPLES, 0.3),
}


def figures() -> list[Figure]:
    found = []
    for name, values in SHAPES.items():
        wall = _wall(partial(betting_sequence, values))
        found.append(
            Figure(name=f"betting sequence, n={SAMPLES:,}, {name}", measured=wall, unit="s", limit=1, digits=3)
        )
    values = SHAPES["all equal (worst)"]
    found.append(Figure(name="- its memory", measured=_peak(lambda: betting_sequence(values)), unit="MB", limit=20))
    return [*found, *(_both_bounds(n, limit) for n, limit in ((1319, 20), (100_000, 500)))]


def _both_bounds(n: int, limit: int) -> Figure:
    scores = np.random.default_rng(2).beta(2, 5, n)
    sides: tuple[Side, Side] = ("lower", "upper")
    wall = _wall(lambda: [betting_bound(scores, bounds=(0, 1), alpha=0.05, side=side) for side in sides])
    return Figure(name=f"both guaranteed bounds, n={n:,}", measured=1000 * wall, unit="ms", limit=limit, digits=1)


def _wall(work: Callable[[], object]) -> float:
    """The fastest of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def _peak(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


if __name__ == "__main__":
    raise SystemExit(show(figures()))
