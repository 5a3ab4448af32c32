"""Amounts whose truth is known: two arms' seconds or money on the same samples, with skew, rare disasters and zeros.

Each draw is on the scale of logarithms, so that the candidate's true ratio of geometric means is known. A disaster is a reply that
takes many times as long, so rare that a small run may show none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from pytest_crucible.stats.inputs import OPEN
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.means.ratios import log_reach

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, float]]
"""From a generator and a number of samples to the logarithms of their ratios, and the true mean."""

ALPHAS = (0.05, 0.01, 0.005)
SIZES = (20, 50, 200, 300)
EULER = float(np.euler_gamma)


def noise(spread: float) -> Draw:
    return lambda rng, n: (spread * math.sqrt(2) * rng.standard_normal(n), 0.0)


def two_spreads(candidate: float, baseline: float) -> Draw:
    """Lognormal seconds with equal geometric means; the arms have nothing in common."""
    return lambda rng, n: (candidate * rng.standard_normal(n) - baseline * rng.standard_normal(n), 0.0)


def disasters(rate: float, factor: float, spread: float) -> Draw:
    """Only now and then the candidate takes `factor` times as long; that is all by which it is worse."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        often = rng.random(n) < rate
        return noise(spread)(rng, n)[0] + often * math.log(factor), rate * math.log(factor)

    return draw


def beside_a_constant(rng: np.random.Generator, n: int) -> tuple[Array, float]:
    """Exponential seconds beside a baseline that always takes as long: logarithms that are skewed to the left."""
    return np.log(rng.exponential(size=n)), -EULER


SHAPES: Mapping[str, Draw] = {
    "lognormal, sigma 1.5": two_spreads(1.5, 1.5),
    "lognormal, sigma 1.5 and 0.5": two_spreads(1.5, 0.5),
    "exponential and constant": beside_a_constant,
    "1 % take 15 times as long": disasters(0.01, 15, 0.1),
    "2 % take 15 times as long": disasters(0.02, 15, 0.02),
    "5 % take 15 times as long": disasters(0.05, 15, 0.1),
    "10 % take 3 times as long": disasters(0.1, 3, 0.02),
    "1 % take 30 times as long": disasters(0.01, 30, 0.02),
    "2 % take 30 times as long": disasters(0.02, 30, 0.4),
    "5 % take 30 times as long": disasters(0.05, 30, 0.1),
}


def ratio_errors(name: str, n: int, runs: int, seed: int) -> dict[float, float]:
    """Return, for each one-sided alpha, how often the worse of both bounds lies beyond the true ratio."""
    return _errors(name, n, runs, seed, _gaffke)


def t_errors(name: str, n: int, runs: int, seed: int) -> dict[float, float]:
    """The same of Student's t of the logarithms."""
    return _errors(name, n, runs, seed, _student)


def _errors(
    name: str, n: int, runs: int, seed: int, tails: Callable[[Array, float], tuple[float, float]]
) -> dict[float, float]:
    rng = np.random.default_rng([seed, n])
    p_values = np.array([tails(*SHAPES[name](rng, n)) for _ in range(runs)])
    return {alpha: float((p_values <= alpha).mean(axis=0).max()) for alpha in ALPHAS}


def _gaffke(logs: Array, truth: float) -> tuple[float, float]:
    reach = log_reach(float(np.abs(logs).max()), OPEN)
    return (
        gaffke_p_value(logs, null=truth, end=-reach, side="lower"),
        gaffke_p_value(logs, null=truth, end=reach, side="upper"),
    )


def _student(logs: Array, truth: float) -> tuple[float, float]:
    statistic = (logs.mean() - truth) / (logs.std(ddof=1) / math.sqrt(len(logs)))
    below = float(stdtr(len(logs) - 1, statistic))
    return 1 - below, below


def ratio_power(spread: float, ratio: float, n: int, runs: int, seed: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return how often both ways to test find a true ratio of lognormal seconds: Gaffke's bounds, and t."""
    rng = np.random.default_rng([seed, n])
    counts = np.zeros(2)
    for _ in range(runs):
        logs = spread * rng.standard_normal(n) + math.log(ratio)
        counts += [2 * min(tails(logs, 0.0)) <= alpha for tails in (_gaffke, _student)]
    gaffke, student = counts / runs
    return float(gaffke), float(student)


# -- means of one arm ----------------------------------------------------------------------------------------------

Amounts = Callable[[np.random.Generator, int], tuple[Array, float]]
"""From a generator and a number of samples to amounts of at least 0, and their true mean."""


def lognormal(sigma: float) -> Amounts:
    return lambda rng, n: (rng.lognormal(0.0, sigma, n), math.exp(sigma**2 / 2))


def mostly_zero(rng: np.random.Generator, n: int) -> tuple[Array, float]:
    return np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(0.0, 1.0, n)), 0.1 * math.exp(0.5)


def rarely_zero(rng: np.random.Generator, n: int) -> tuple[Array, float]:
    return np.where(rng.random(n) < 0.05, 0.0, 1 + 0.05 * rng.random(n)), 0.95 * 1.025


MEANS: Mapping[str, Amounts] = {
    "lognormal, sigma 1.5": lognormal(1.5),
    "lognormal, sigma 0.5": lognormal(0.5),
    "90 % zeros": mostly_zero,
    "5 % zeros": rarely_zero,
}


def mean_errors(name: str, n: int, runs: int, seed: int) -> dict[float, tuple[float, float, float]]:
    """Return how often a bound for the mean is beyond it: Gaffke's from below, and t from below and from above."""
    rng = np.random.default_rng([seed, n])
    p_values = []
    for _ in range(runs):
        values, truth = MEANS[name](rng, n)
        gaffke = gaffke_p_value(values, null=truth, end=0.0, side="lower")
        p_values.append((gaffke, *(_student(values, truth) if values.std() else (1.0, 1.0))))
    shares = {alpha: (np.array(p_values) <= alpha).mean(axis=0) for alpha in ALPHAS}
    return {alpha: (float(row[0]), float(row[1]), float(row[2])) for alpha, row in shares.items()}
