"""How two variables rise together, in ranks: Spearman's and Kendall's correlation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.counts.correlations import (
    constant_result,
    correlated_pairs,
    fisher_interval,
    is_perfect,
    perfect_result,
    t_statistic,
)
from pytest_crucible.stats.observations import Alternative, check_choice
from pytest_crucible.stats.ranks.exact import ORDERS, SWAPS, Method, is_exact, products_law, swaps_tail
from pytest_crucible.stats.ranks.ranking import Counts, doubled_ranks, levels
from pytest_crucible.stats.tails import normal_p_value, t_p_value


def spearman(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    method: Method = "auto",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Spearman's rank correlation with mid-ranks and Bonett & Wright's interval.

    exact (auto up to n = 10): the law over all n! orders, also with ties; R: cor.test(method = "spearman", exact =
    TRUE). Two-sided is the probability of a correlation at least as far from 0. asymptotic: t with n - 2 degrees.
    Interval: tanh(atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3))), Bonett & Wright 2000 (Psychometrika 65:23), [-1, 1]
    at n = 3. Constant and perfect variables as in `pearson`. Raises NotEnoughData below three pairs.

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
        found = perfect_result(name, rho, sizes, alternative)
        return replace(found, p_value=_exact_p_value(ranks, others, alternative)) if exact else found
    statistic = t_statistic(rho, n - 2)
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
    """Kendall's tau-b in O(n log n), with Fieller's interval; R: cor.test(method = "kendall").

    exact (auto below n = 50 without ties): the law over all orders; statistic: the number of concordant pairs.
    asymptotic: z with the tie-corrected variance, without continuity correction. Interval: tanh(atanh(tau) -+ z
    sqrt(0.437 / (n - 4))), Fieller, Hartley & Pearson 1957, [-1, 1] up to n = 4. A constant variable is degenerate.
    Raises ValueError for "exact" with ties, NotEnoughData below three pairs.

    >>> result = kendall([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4), result.statistic
    (0.6, 0.2333, 8.0)
    """
    check_choice(method, get_args(Method), "method")
    first, second = correlated_pairs(x, y, level, alternative)
    n, (codes, sizes), (others, other_sizes) = first.size, levels(first), levels(second)
    if min(sizes.size, other_sizes.size) == 1:
        return constant_result("kendall", n)
    tied = min(sizes.size, other_sizes.size) < n
    if tied and method == "exact":
        raise ValueError(f"the exact law of kendall needs {n} distinct values of each variable: ask for asymptotic")
    exact = is_exact("asymptotic" if tied and method == "auto" else method, n, SWAPS)
    discordant, score = _discordance(codes, others, sizes, other_sizes)
    tau = score / math.sqrt((_pairs(n) - _tied(sizes)) * (_pairs(n) - _tied(other_sizes)))
    z = score / math.sqrt(_score_variance(n, sizes, other_sizes))
    se = math.sqrt(0.437 / (n - 4)) if n > 4 else math.inf
    interval = fisher_interval(tau, se, level=level, method="fieller", alternative=alternative)
    return Significance(
        method=f"kendall, {'exact' if exact else 'asymptotic'}",
        statistic=float(_pairs(n) - discordant) if exact else z,
        p_value=_order_p_value(n, discordant, alternative) if exact else normal_p_value(z, alternative),
        estimate=tau,
        interval=interval,
        n=(n,),
        status="ok" if interval else "degenerate",
        note="" if interval else "a perfect correlation has no interval",
    )


def _rank_correlation(ranks: Counts, others: Counts) -> float | None:
    """Pearson's correlation of whole numbers, exact up to the last division; None when one of them is constant."""
    n, first, second = ranks.size, int(ranks.sum()), int(others.sum())
    spread = (n * int(ranks @ ranks) - first * first) * (n * int(others @ others) - second * second)
    return (n * int(ranks @ others) - first * second) / math.sqrt(spread) if spread else None


def _exact_p_value(ranks: Counts, others: Counts, alternative: Alternative) -> float:
    first, second = _divided(ranks), _divided(others)
    law, start = products_law(first, second)
    n, seen = len(first), sum(a * b for a, b in zip(first, second, strict=True))
    # n times a product less its mean: whole numbers, so that "as far from 0" needs no tolerance.
    away = n * (start + np.arange(law.size)) - sum(first) * sum(second)
    observed = n * seen - sum(first) * sum(second)
    if alternative == "two-sided":
        extreme = np.abs(away) >= abs(observed)
    else:
        extreme = away >= observed if alternative == "greater" else away <= observed
    return min(1.0, float(law[extreme].sum()))


def _divided(ranks: Counts) -> list[int]:
    step = math.gcd(*ranks.tolist())
    return [int(rank) // step for rank in ranks]


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _tied(sizes: Counts) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _discordance(codes: Counts, others: Counts, sizes: Counts, other_sizes: Counts) -> tuple[int, int]:
    """Number of discordant pairs, and concordant less discordant ones (Knight 1966, JASA 61:436)."""
    order = np.lexsort((others, codes))
    discordant = _inversions(others[order])
    joint = np.unique(codes * other_sizes.size + others, return_counts=True)[1]
    untied = _pairs(codes.size) - _tied(sizes) - _tied(other_sizes) + _tied(joint)
    return discordant, untied - 2 * discordant


def _inversions(codes: Counts) -> int:
    """Pairs in which a larger number stands before a smaller one, bit by bit from the highest.

    Two numbers are in the wrong order when, at the highest bit in which they differ, the 1 stands before the 0.
    """
    total = 0
    for bit in reversed(range(int(codes.max()).bit_length())):
        prefix = codes >> (bit + 1)
        ones = codes >> bit & 1
        before = np.cumsum(ones) - ones
        starts = np.searchsorted(prefix, prefix)  # prefixes ascend: where the group of each number begins
        total += int((before - before[starts])[ones == 0].sum())
        codes = codes[np.argsort(codes >> bit, kind="stable")]
    return total


def _score_variance(n: int, sizes: Counts, other_sizes: Counts) -> float:
    """Variance of concordant less discordant pairs given the ties (Kendall 1970, 4.9), as in R's cor.test."""
    first, second = sizes.astype(np.float64), other_sizes.astype(np.float64)

    def cubic(t: npt.NDArray[np.float64]) -> float:
        return float((t * (t - 1) * (2 * t + 5)).sum())

    def triples(t: npt.NDArray[np.float64]) -> float:
        return float((t * (t - 1) * (t - 2)).sum())

    whole = (n * (n - 1) * (2 * n + 5) - cubic(first) - cubic(second)) / 18
    both = 4 * _tied(sizes) * _tied(other_sizes) / (2 * n * (n - 1))
    return whole + both + triples(first) * triples(second) / (9 * n * (n - 1) * (n - 2))


def _order_p_value(n: int, discordant: int, alternative: Alternative) -> float:
    concordant = _pairs(n) - discordant
    if alternative == "two-sided":
        return min(1.0, 2 * swaps_tail(n, min(concordant, discordant)))
    return swaps_tail(n, discordant if alternative == "greater" else concordant)
