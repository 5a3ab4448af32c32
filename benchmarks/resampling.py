"""Bootstrap and sign flips beside scipy: the same question, 10,000 resamples or an exact law, on this machine.

CPU time, the least of several runs, since whatever else the machine does only adds. scipy runs in batches: at n=10,000 it must.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats as scipy_stats

from benchmarks.figures import Figure, show
from pytest_crucible.stats.resampling.mean_bootstrap import bootstrap_mean
from pytest_crucible.stats.resampling.permutation import sign_flip

RESAMPLES, BATCH = 10_000, 500
REPEATS = 5
LIMITS_MS = {
    50: {"grid": 5.0, "any": 20.0, "drawn": 10.0, "flips on a grid": 5.0, "flips": 5.0},
    1_000: {"grid": 15.0, "any": 20.0, "drawn": 45.0, "flips on a grid": 50.0, "flips": 10.0},
    10_000: {"grid": 50.0, "any": 50.0, "drawn": 700.0, "flips on a grid": 150.0, "flips": 100.0},
}
"""Limits by the number of scores."""
LIMIT_MB = 500.0

Scores = npt.NDArray[np.float64]


def figures() -> list[Figure]:
    found: list[Figure] = []
    for n, limits in LIMITS_MS.items():
        scores = np.random.default_rng(1).beta(2, 1, n)
        found += _bootstraps(scores, limits)
        found += _sign_flips(scores - np.random.default_rng(2).beta(2, 1, n), limits)
    return [*found, *_memory(np.random.default_rng(1).beta(2, 1, 10_000))]


def _bootstraps(scores: Scores, limits: dict[str, float]) -> list[Figure]:
    rounded = np.round(scores, 2)
    theirs = _milliseconds(lambda: _scipy_bootstrap(scores), repeats=1)
    ours = {
        "grid": ("BCa interval of a mean, scores of 2 decimals", lambda: bootstrap_mean(rounded)),
        "any": ("- any scores, no resampling", lambda: bootstrap_mean(scores)),
        "drawn": ("- 10,000 random resamples", lambda: bootstrap_mean(scores, draw=True)),
    }
    return _beside(ours, theirs, scores.size, limits, "scipy.stats.bootstrap")


def _sign_flips(differences: Scores, limits: dict[str, float]) -> list[Figure]:
    rounded = np.round(differences, 2)
    theirs = _milliseconds(lambda: _scipy_flips(differences), repeats=1)
    ours = {
        "flips on a grid": ("sign-flip test, differences of 2 decimals", lambda: sign_flip(rounded)),
        "flips": ("- any differences, 10,000 flips", lambda: sign_flip(differences)),
    }
    return _beside(ours, theirs, differences.size, limits, "scipy.stats.permutation_test")


def _beside(
    ours: dict[str, tuple[str, Callable[[], object]]], theirs: float, n: int, limits: dict[str, float], name: str
) -> list[Figure]:
    """Each of ours with its limit, and how many times longer scipy takes."""
    found = [Figure(name=f"{name}, n={n:,}", measured=theirs, unit="ms")]
    for key, (shown, function) in ours.items():
        taken = _milliseconds(function, repeats=REPEATS)
        found.append(Figure(name=f"{shown}, n={n:,}", measured=taken, unit="ms", limit=limits[key], digits=2))
        found.append(Figure(name="  scipy takes longer by a factor of", measured=theirs / taken, unit=""))
    return found


def _memory(scores: Scores) -> list[Figure]:
    return [
        Figure(
            name=f"memory of {name}, n={scores.size:,}", measured=_megabytes(function), unit="MB", limit=limit, digits=1
        )
        for name, function, limit in (
            ("a BCa interval", lambda: bootstrap_mean(scores), LIMIT_MB),
            ("10,000 resamples", lambda: bootstrap_mean(scores, draw=True), LIMIT_MB),
            ("10,000 flips", lambda: sign_flip(scores - 0.6), LIMIT_MB),
            ("scipy.stats.bootstrap, batches of 500", lambda: _scipy_bootstrap(scores), None),
        )
    ]


def _scipy_bootstrap(scores: Scores) -> object:
    return scipy_stats.bootstrap((scores,), np.mean, n_resamples=RESAMPLES, batch=BATCH, method="BCa", rng=1)


def _scipy_flips(differences: Scores) -> object:
    return scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, batch=BATCH, vectorized=True, rng=1
    )


def _milliseconds(function: Callable[[], object], *, repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return min(taken) * 1000


def _megabytes(function: Callable[[], object]) -> float:
    """The most that the call held at once, as numpy and Python report it."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


if __name__ == "__main__":
    raise SystemExit(show(figures()))
