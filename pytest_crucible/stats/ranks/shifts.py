"""Shift between two arms: Hodges-Lehmann estimates with intervals from order statistics.

The interval uses the distribution without ties. Its ends are included, so it keeps its level with ties as well
(Pratt & Gibbons 1981, Concepts of Nonparametric Theory, 2.6 and 3.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, Array, check_share, finite
from pytest_crucible.stats.ranks.exact import (
    SIGNED,
    WINS,
    Method,
    is_exact,
    order_for,
    signed_rank_distribution,
    untied_wins_distribution,
)
from pytest_crucible.stats.ranks.ranking import rounded_differences
from pytest_crucible.stats.ranks.sums import sum_of_rank
from pytest_crucible.stats.results import Effect
from pytest_crucible.stats.tails import tail_share


def hodges_lehmann(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    level: float = 0.95,
    method: Method = "auto",
    correction: bool = True,
    alternative: Alternative = "two-sided",
) -> Effect:
    """Return the median of all differences candidate_i - baseline_j, with the interval of the Mann-Whitney test.

    R: wilcox.test(candidate, baseline, conf.int = TRUE); its asymptotic ends are roots of limited precision, here they
    are order statistics. An end is infinite when there are too few values for the level. The interval is None when ties
    shrink it to a point. Raises NotEnoughData for an empty arm.

    >>> effect = hodges_lehmann([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15])
    >>> round(effect.value, 6), round(effect.interval.low, 6), round(effect.interval.high, 6)
    (0.7, 0.5, 0.85)
    """
    first, second = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    tail, total = _tail(level, alternative), first.size * second.size
    if not total:
        raise NotEnoughData(f"{first.size} candidate and {second.size} baseline values: a shift needs both arms")
    # Differences x_i - y_j are sums x_i + (-y_j), and the search needs ascending columns.
    columns, starts = np.sort(-second), np.zeros(first.size, dtype=np.intp)
    if is_exact(method, total, WINS):
        order = order_for(untied_wins_distribution(first.size, second.size), tail)
    else:
        order = _normal_order(total, total * (first.size + second.size + 1) / 12, tail, correction)

    def at(rank: int) -> float:
        return sum_of_rank(first, columns, starts, rank)

    return _shift("hodges-lehmann shift", at, total, order, level, alternative)


def pseudo_median(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    method: Method = "auto",
    correction: bool = True,
    alternative: Alternative = "two-sided",
) -> Effect:
    """Return the median of all averages of two differences, with the interval of the signed-rank test.

    R: wilcox.test(candidate - baseline, conf.int = TRUE). Without a baseline the values are differences already.
    Differences are rounded as `rounded_differences` says. Raises NotEnoughData without pairs.

    >>> effect = pseudo_median([0.72, 0.68, 0.75, 0.71, 0.69], [0.6, 0.55, 0.61, 0.56, 0.53], level=0.9)
    >>> round(effect.value, 6), round(effect.interval.low, 6), round(effect.interval.high, 6)
    (0.14, 0.12, 0.16)
    """
    differences: Array = np.sort(rounded_differences(candidate, baseline))
    n, tail = differences.size, _tail(level, alternative)
    total = n * (n + 1) // 2
    if not n:
        raise NotEnoughData("no pairs: a shift needs at least one")
    if is_exact(method, n, SIGNED):
        order = order_for(signed_rank_distribution(range(1, n + 1), total // 2), tail)
    else:
        order = _normal_order(total, total * (2 * n + 1) / 12, tail, correction)

    def at(rank: int) -> float:
        return sum_of_rank(differences, differences, np.arange(n), rank) / 2

    return _shift("pseudo-median", at, total, order, level, alternative)


def _tail(level: float, alternative: Alternative) -> float:
    check_share(level, "level")
    return tail_share(1 - level, alternative)


def _normal_order(total: int, variance: float, tail: float, correction: bool) -> int:
    """Return the number of order statistics that the interval of the asymptotic test leaves out on one side."""
    return max(0, math.ceil(total / 2 - 0.5 * correction + float(ndtri(tail)) * math.sqrt(variance)))


def _shift(
    name: str, at: Callable[[int], float], total: int, order: int, level: float, alternative: Alternative
) -> Effect:
    middle = at((total + 1) // 2)
    value = middle if total % 2 else (middle + at(total // 2 + 1)) / 2
    low = at(order) if order and alternative != "less" else -math.inf
    high = at(total + 1 - order) if order and alternative != "greater" else math.inf
    # Many ties put both order statistics on one value; a point is not an interval.
    if low == high:
        return Effect(name=name, value=value, note="too many ties: the interval for a shift would be a single point")
    return Effect(name=name, value=value, interval=Interval(low=low, high=high, level=level, method="order statistics"))
