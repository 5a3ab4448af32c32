"""Exact error rates of yes-or-no results: every outcome with its probability, and the worst of a grid of true rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlog1py, xlogy

from pytest_crucible import stats
from pytest_crucible.stats.proportions.exact import paired_exact_bound, two_exact_bound

Array = npt.NDArray[np.float64]
Alphas = tuple[float, ...]
DIFFERENCES = (-0.3, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.02, 0.1, 0.3)
"""True differences at which one-sided bounds may not be beyond the truth; a margin of 0.05 is -0.05."""
RATES = np.sin(np.linspace(0.0, np.pi / 2, 61)) ** 2


def table_of_pairs(n: int, value: Callable[[int, int], float]) -> Array:
    """Return `value(gained, lost)` of every outcome of n pairs; NaN where there is none."""
    table = np.full((n + 1, n + 1), np.nan)
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            table[gained, lost] = value(gained, lost)
    return table


def chances_of_pairs(n: int, difference: float, discordance: float) -> Array:
    """Return the probability of every outcome; gained x lost."""
    gained, lost = np.arange(n + 1.0)[:, None], np.arange(n + 1.0)[None, :]
    agree = n - gained - lost
    there = agree >= 0
    ways = gammaln(n + 1) - gammaln(gained + 1) - gammaln(lost + 1) - gammaln(np.where(there, agree, 0) + 1)
    rates = max((discordance + difference) / 2, 0.0), max((discordance - difference) / 2, 0.0)
    logs = ways + xlogy(gained, rates[0]) + xlogy(lost, rates[1]) + xlog1py(np.where(there, agree, 0), -discordance)
    return np.where(there, np.exp(logs), 0.0)


def worst_of_pairs(n: int, wrong: Array, difference: float) -> float:
    """Return the largest probability of the wrong outcomes over all rates of discordant pairs."""
    discordances = abs(difference) + (1 - abs(difference)) * RATES
    return max(float(chances_of_pairs(n, difference, rate)[wrong].sum()) for rate in discordances)


def worst_of_arms(sizes: tuple[int, int], wrong: Array, difference: float) -> float:
    """Return the largest probability of the wrong outcomes, first x second successes, over all second rates."""
    low, high = max(0.0, -difference), min(1.0, 1.0 - difference)
    rates = low + (high - low) * RATES
    firsts, seconds = (binomial(n, rate) for n, rate in zip(sizes, (rates + difference, rates), strict=True))
    return float(np.einsum("ri,ij,rj->r", firsts, wrong.astype(float), seconds).max())


def binomial(n: int, rates: Array) -> Array:
    """Return the probabilities of 0 to n successes, a line for each rate."""
    counts, column = np.arange(n + 1.0), np.clip(rates, 0.0, 1.0)[:, None]
    ways = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return np.exp(ways + xlogy(counts, column) + xlog1py(n - counts, -column))


def table_of_arms(sizes: tuple[int, int], value: Callable[[int, int, int, int], float]) -> Array:
    """Return `value(x1, n1, x2, n2)` of every outcome of two arms."""
    n1, n2 = sizes
    return np.array([[value(x1, n1, x2, n2) for x2 in range(n2 + 1)] for x1 in range(n1 + 1)])


def false_alarms_of_pairs(n: int, alphas: Alphas, p_value: Callable[[int, int, int], float]) -> list[float]:
    """Return the largest share of experiments in which arms that do not differ are called different, for each alpha."""
    table = table_of_pairs(n, lambda gained, lost: p_value(gained, lost, n))
    return [worst_of_pairs(n, table <= alpha, 0.0) for alpha in alphas]


def false_alarms_of_arms(
    sizes: tuple[int, int], alphas: Alphas, p_value: Callable[[int, int, int, int], float]
) -> list[float]:
    """Return the same for two independent arms."""
    table = table_of_arms(sizes, p_value)
    return [worst_of_arms(sizes, table <= alpha, 0.0) for alpha in alphas]


def pairs_beyond_the_truth(n: int, alphas: Alphas) -> list[float]:
    """Return the largest share of experiments whose lower bound of pairs is above the true difference, for each alpha."""
    return [max(_beyond(n, alpha)) for alpha in alphas]


def _beyond(n: int, alpha: float) -> Iterator[float]:
    table = table_of_pairs(n, lambda *outcome: paired_exact_bound(*outcome, n, alpha=alpha, side="lower"))
    return (worst_of_pairs(n, table > difference, difference) for difference in DIFFERENCES)


def arms_beyond_the_truth(sizes: tuple[int, int], alphas: Alphas) -> list[float]:
    """Return the same for two independent arms."""
    return [max(_beyond_of_arms(sizes, alpha)) for alpha in alphas]


def _beyond_of_arms(sizes: tuple[int, int], alpha: float) -> Iterator[float]:
    table = table_of_arms(sizes, lambda *outcome: two_exact_bound(*outcome, alpha=alpha, side="lower"))
    return (worst_of_arms(sizes, table > difference, difference) for difference in DIFFERENCES)


def targets_beyond_the_truth(n: int, alphas: Alphas) -> list[float]:
    """Return the largest share of experiments whose lower bound of one rate is above it, for each alpha."""
    return [max(_beyond_of_one(n, alpha)) for alpha in alphas]


def _beyond_of_one(n: int, alpha: float) -> Iterator[float]:
    """The worst rates are those just below a bound: there it is beyond the truth, and most probable."""
    bounds = np.array([stats.clopper_pearson_bound(k, n, alpha=alpha, side="lower") for k in range(n + 1)])
    rates = np.clip(np.concatenate([bounds - 1e-9, RATES]), 0.0, 1.0)
    return (float(chances[bounds > rate].sum()) for rate, chances in zip(rates, binomial(n, rates), strict=True))
