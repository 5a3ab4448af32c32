"""Rank correlations: Spearman's rho and Kendall's tau."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, check_choice
from pytest_crucible.stats.counts.correlations import (
    constant_result,
    correlated_pairs,
    fisher_interval,
    is_perfect,
    perfect_result,
    t_statistic,
)
from pytest_crucible.stats.ranks.exact import ORDERS, SWAPS, Method, is_exact, rank_product_distribution
from pytest_crucible.stats.ranks.ranking import Counts, doubled_ranks, levels
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import t_p_value


def spearman(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    method: Method = "auto",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return Spearman's rank correlation with mid-ranks and Bonett & Wright's interval.

    exact (auto up to n = 10): the distribution over all n! orders, also with ties; R: cor.test(method = "spearman", exact
    = TRUE). The two-sided p-value is the probability of a correlation at least as far from 0. asymptotic: t with n - 2
    degrees of freedom. Interval: tanh(atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3))), Bonett & Wright 2000
    (Psychometrika 65:23), [-1, 1] at n = 3. Constant and perfect variables as in `pearson`. Raises NotEnoughData below
    three pairs.

    >>> result = spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4), round(result.interval.low, 4)
    (0.8, 0.1333, -0.4571)
    """
    first, second = correlated_pairs(x, y, level, alternative)
    n, (ranks, sizes), (others, _) = first.size, doubled_ranks(first), doubled_ranks(second)
    exact = is_exact(method, n, ORDERS)
    name = f"spearman, {'exact' if exact else 'asymptotic'}"
    rho = _rank_correlation(ranks, others)
    if rho is None:
        return constant_result(name, n)
    if is_perfect(rho):
        perfect = perfect_result(name, rho, sizes, alternative)
        return replace(perfect, p_value=_exact_p_value(ranks, others, alternative)) if exact else perfect
    statistic = t_statistic(rho, n - 2)
    # Bonett & Wright 2000: Fisher's 1 / (n - 3) is too small for ranks.
    se = math.sqrt((1 + rho * rho / 2) / (n - 3)) if n > 3 else math.inf
    return Significance(
        method=name,
        statistic=None if exact else statistic,
        p_value=_exact_p_value(ranks, others, alternative) if exact else t_p_value(statistic, n - 2, alternative),
        dof=() if exact else (float(n - 2),),
        estimate=rho,
        interval=fisher_interval(rho, se, level=level, method="bonett-wright", alternative=alternative),
        n=(n,),
    )


def kendall(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    method: Method = "auto",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return Kendall's tau-b with Fieller's interval; tau and p-value are those of scipy.stats.kendalltau.

    exact (auto below n = 50 without ties): the distribution over all orders; statistic: the number of concordant pairs.
    asymptotic: z with the tie-corrected variance, without continuity correction; R: cor.test(method = "kendall").
    Interval: tanh(atanh(tau) -+ z sqrt(0.437 / (n - 4))), Fieller, Hartley & Pearson 1957, [-1, 1] up to n = 4. A constant
    variable is degenerate. Raises ValueError for "exact" with ties, NotEnoughData below three pairs.

    >>> result = kendall([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4), result.statistic
    (0.6, 0.2333, 8.0)
    """
    check_choice(method, get_args(Method), "method")
    first, second = correlated_pairs(x, y, level, alternative)
    n, (codes, sizes), (others, other_sizes) = first.size, levels(first), levels(second)
    if min(sizes.size, other_sizes.size) == 1:
        return constant_result("kendall", n)
    # The exact distribution is that of permutations without ties.
    tied = min(sizes.size, other_sizes.size) < n
    if tied and method == "exact":
        raise ValueError(
            f"Kendall's exact distribution needs {n} distinct values of each variable: use method='asymptotic'"
        )
    exact = is_exact("asymptotic" if tied and method == "auto" else method, n, SWAPS)
    from scipy.stats import kendalltau

    answer = kendalltau(codes, others, method="exact" if exact else "asymptotic", alternative=alternative)
    untied = math.sqrt((_pairs(n) - _tied_pairs(sizes)) * (_pairs(n) - _tied_pairs(other_sizes)))
    # Concordant less discordant pairs are a whole number; from it tau is exactly 1 where every pair agrees.
    score = round(float(answer.statistic) * untied)
    tau = score / untied
    z = score / math.sqrt(_score_variance(n, sizes, other_sizes))
    # Fieller, Hartley & Pearson 1957: the variance of atanh(tau) by simulation.
    se = math.sqrt(0.437 / (n - 4)) if n > 4 else math.inf
    interval = fisher_interval(tau, se, level=level, method="fieller", alternative=alternative)
    return Significance(
        method=f"kendall, {'exact' if exact else 'asymptotic'}",
        statistic=(_pairs(n) + score) / 2 if exact else z,
        p_value=float(answer.pvalue),
        estimate=tau,
        interval=interval,
        n=(n,),
        status="ok" if interval else "degenerate",
        note="" if interval else "a perfect correlation has no interval",
    )


def _rank_correlation(ranks: Counts, others: Counts) -> float | None:
    """Return Pearson's correlation of integer ranks, exact up to the last division; None when one is constant."""
    n, first, second = ranks.size, int(ranks.sum()), int(others.sum())
    spread = (n * int(ranks @ ranks) - first * first) * (n * int(others @ others) - second * second)
    return (n * int(ranks @ others) - first * second) / math.sqrt(spread) if spread else None


def _exact_p_value(ranks: Counts, others: Counts, alternative: Alternative) -> float:
    first, second = _divide_by_gcd(ranks), _divide_by_gcd(others)
    distribution, start = rank_product_distribution(first, second)
    n, product = len(first), sum(a * b for a, b in zip(first, second, strict=True))
    # n times a product less its mean are integers, so that "as far from 0" needs no tolerance.
    away = n * (start + np.arange(distribution.size)) - sum(first) * sum(second)
    observed = n * product - sum(first) * sum(second)
    if alternative == "two-sided":
        extreme = np.abs(away) >= abs(observed)
    else:
        extreme = away >= observed if alternative == "greater" else away <= observed
    return min(1.0, float(distribution[extreme].sum()))


def _divide_by_gcd(ranks: Counts) -> list[int]:
    step = math.gcd(*ranks.tolist())
    return [int(rank) // step for rank in ranks]


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _tied_pairs(sizes: Counts) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _score_variance(n: int, sizes: Counts, other_sizes: Counts) -> float:
    """Return the variance of concordant less discordant pairs given the ties (Kendall 1970, 4.9), as in R's cor.test."""
    first, second = sizes.astype(np.float64), other_sizes.astype(np.float64)

    def cubic(t: npt.NDArray[np.float64]) -> float:
        return float((t * (t - 1) * (2 * t + 5)).sum())

    def triples(t: npt.NDArray[np.float64]) -> float:
        return float((t * (t - 1) * (t - 2)).sum())

    whole = (n * (n - 1) * (2 * n + 5) - cubic(first) - cubic(second)) / 18
    both = 4 * _tied_pairs(sizes) * _tied_pairs(other_sizes) / (2 * n * (n - 1))
    return whole + both + triples(first) * triples(second) / (9 * n * (n - 1) * (n - 2))
