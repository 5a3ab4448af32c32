"""Amounts between 0 and a known end whose ratio of means is known: skew, Pareto tails, zeros and disasters, alone and in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.means.ratio_bounds import mean_ratio_p_value
from pytest_crucible.stats.resampling.alikeness import flip_signs
from pytest_crucible.stats.resampling.draws import MonteCarlo

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]
Draw = Callable[[np.random.Generator, int], Pair]

HIGH = 60.0
"""The declared upper end, of seconds at a time limit."""
ALPHAS = (0.05, 0.005)
SIZES = (20, 50, 200)
GROUP_SIZES = (1, 2, 4, 8, 16)


def lognormal(candidate: float, baseline: float) -> Draw:
    return lambda rng, n: (
        np.minimum(np.exp(candidate * rng.standard_normal(n)), HIGH),
        np.minimum(np.exp(baseline * rng.standard_normal(n)), HIGH),
    )


def pareto(candidate: float, baseline: float) -> Draw:
    return lambda rng, n: (
        np.minimum(1 + rng.pareto(candidate, n), HIGH),
        np.minimum(1 + rng.pareto(baseline, n), HIGH),
    )


def with_zeros(draw: Draw, share: float) -> Draw:
    def put_zeros(rng: np.random.Generator, n: int) -> Pair:
        first, second = draw(rng, n)
        return first * (rng.random(n) >= share), second * (rng.random(n) >= share)

    return put_zeros


def with_limit(share: float) -> Draw:
    """Replies of about a second, of which the candidate's run into the time limit now and then."""

    def draw(rng: np.random.Generator, n: int) -> Pair:
        first, second = np.exp(0.1 * rng.standard_normal((2, n)))
        return np.where(rng.random(n) < share, HIGH, first), second

    return draw


SHAPES: Mapping[str, Draw] = {
    "lognormal, sigma 1": lognormal(1.0, 1.0),
    "lognormal, sigma 1.5 and 0.5": lognormal(1.5, 0.5),
    "pareto 1.2": pareto(1.2, 1.2),
    "pareto 1.2 and 3": pareto(1.2, 3.0),
    "40 % zeros, lognormal": with_zeros(lognormal(1.0, 1.0), 0.4),
    "90 % zeros, pareto": with_zeros(pareto(1.2, 1.2), 0.9),
    "1 % at the limit": with_limit(0.01),
    "5 % at the limit": with_limit(0.05),
}
ALIKE = ("lognormal, sigma 1", "pareto 1.2", "40 % zeros, lognormal", "90 % zeros, pareto")
"""Shapes of which the two replies to a sample can be exchanged."""


@cache
def true_ratio(draw: Draw) -> float:
    """Return the ratio of means, from ten million draws."""
    rng = np.random.default_rng(0)
    sums = np.array([[arm.sum() for arm in draw(rng, 1_000_000)] for _ in range(10)]).sum(axis=0)
    return float(sums[0] / sums[1])


def in_groups(draw: Draw, rng: np.random.Generator, n: int) -> tuple[Pair, npt.NDArray[np.int64]]:
    """Return about n pairs in uneven groups, of which each repeats one pair: the worst case."""
    sizes = np.resize(GROUP_SIZES, max(5, round(n / np.mean(GROUP_SIZES))))
    labels = np.repeat(np.arange(sizes.size), rng.permutation(sizes))
    first, second = draw(rng, sizes.size)
    return (first[labels], second[labels]), labels


def bound_errors(name: str, n: int, runs: int, *, grouped: bool = False) -> dict[float, float]:
    """Return, for each one-sided alpha, how often the worse of both bounds excludes the true ratio."""
    draw, rng = SHAPES[name], np.random.default_rng(n)
    truth, p_values = true_ratio(draw), []
    for _ in range(runs):
        pair, labels = in_groups(draw, rng, n) if grouped else (draw(rng, n), None)
        p_values.append(
            [
                mean_ratio_p_value(*pair, null=truth, bounds=(0.0, HIGH), side=side, clusters=labels)
                for side in ("lower", "upper")
            ]
        )
    return {alpha: float((np.array(p_values) <= alpha).mean(axis=0).max()) for alpha in ALPHAS}


def gate_errors(name: str, n: int, runs: int, *, grouped: bool = False) -> float:
    """Return how often the test that the arms are alike rejects at 5 % where they are."""
    draw, rng, rejected = SHAPES[name], np.random.default_rng(n + 1), 0
    for run in range(runs):
        (first, second), labels = in_groups(draw, rng, n) if grouped else (draw(rng, n), None)
        setting = MonteCarlo(seed=run, draws=999, finest=0.001)
        rejected += flip_signs(first - second, clusters=labels, monte_carlo=setting).p_value <= 0.05
    return rejected / runs
