"""Tests of a distribution's shape: Shapiro-Wilk and Kolmogorov-Smirnov.

They are for description: they choose no method of this package. A test of means that is chosen after a test of shape
keeps neither its level nor its estimand.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import kolmogorov, ndtr

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import Array, finite, is_constant
from pytest_crucible.stats.results import Significance

Method = Literal["auto", "exact", "asymptotic"]

MOST_SHAPIRO = 5000
"""Royston's approximation was fitted up to this size; R has the same limit."""
MOST_PAIRINGS = 250_000
"""Largest n1 * n2 for which `auto` is exact; it takes some milliseconds."""


def shapiro_wilk(values: npt.ArrayLike) -> Significance:
    """Return Shapiro & Wilk's W with Royston's p-value (1995), for "the values are normal"; R: shapiro.test(x).

    Equal values have no W. Raises NotEnoughData below three values and ValueError above 5000.

    >>> result = shapiro_wilk([0.1, 0.5, 0.6])
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (0.892857, 0.363113)
    """
    array = finite(values)
    if array.size < 3:
        raise NotEnoughData(f"{quantity(array.size, 'value')}: a shape needs at least 3")
    if array.size > MOST_SHAPIRO:
        raise ValueError(
            f"{array.size} values, but the p-value of shapiro-wilk is known up to {MOST_SHAPIRO}: give a random part"
        )
    if is_constant(array):
        note = "all values are equal"
        return Significance(
            method="shapiro-wilk", statistic=None, p_value=None, n=(array.size,), status="degenerate", note=note
        )
    from scipy.stats import shapiro

    # Centred and scaled, because Shapiro's sums of squares overflow for values such as 1e200.
    answer = shapiro((array - np.median(array)) / np.abs(array - np.median(array)).max())
    return Significance(
        method="shapiro-wilk", statistic=float(answer.statistic), p_value=float(answer.pvalue), n=(array.size,)
    )


def ks_normal(values: npt.ArrayLike, *, mean: float, deviation: float, method: Method = "exact") -> Significance:
    """Return the two-sided Kolmogorov-Smirnov test against one fully specified normal distribution.

    R: ks.test(x, "pnorm", mean, deviation). Mean and deviation must be known beforehand: when they are estimated from the
    same values, the p-value is far too large (Lilliefors' test corrects for that). Raises NotEnoughData without values.

    >>> result = ks_normal([-0.4, 0.2, 1.3], mean=0.0, deviation=1.0)
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (0.344578, 0.747555)
    """
    array = finite(values)
    if not deviation > 0 or not math.isfinite(mean + deviation):
        raise ValueError(f"expected a finite mean and a positive deviation, not {mean!r} and {deviation!r}")
    if not array.size:
        raise NotEnoughData("0 values: a distribution needs at least 1")
    from scipy.stats import ks_1samp

    chosen = _choose_method(method, array.size)
    answer = ks_1samp((array - mean) / deviation, ndtr, method="exact" if chosen == "exact" else "asymp")
    return Significance(
        method=f"kolmogorov-smirnov, normal, {chosen}",
        statistic=float(answer.statistic),
        p_value=float(answer.pvalue),
        n=(array.size,),
    )


def ks_two_sample(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, method: Method = "auto") -> Significance:
    """Return the two-sided Kolmogorov-Smirnov test of two arms; R: ks.test(candidate, baseline).

    exact: the share of arrangements of the pooled values into two arms with a distance as large, ties included (Schröer &
    Trenkler 1995); scipy.stats.ks_2samp ignores ties. `auto` is exact up to n1 * n2 = 250 000. Raises NotEnoughData for an
    empty arm.

    >>> result = ks_two_sample([1, 2, 3], [4, 5, 6])
    >>> result.statistic, round(result.p_value, 6), result.method
    (1.0, 0.1, 'kolmogorov-smirnov, exact')
    """
    first, second = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    if not first.size or not second.size:
        raise NotEnoughData(f"{first.size} and {second.size} values: each distribution needs at least 1")
    m, n = first.size, second.size
    pooled = np.sort(np.concatenate([first, second]))
    last = np.append(pooled[1:] != pooled[:-1], True)
    largest = _largest_distance(first, second, pooled[last])
    chosen = _choose_method(method, m * n)
    if chosen == "exact":
        p_value = _two_sample_p_value(largest, m, n, last)
    else:
        p_value = float(kolmogorov(largest / math.sqrt(m * n * (m + n))))
    return Significance(method=f"kolmogorov-smirnov, {chosen}", statistic=largest / (m * n), p_value=p_value, n=(m, n))


def _choose_method(method: Method, size: int) -> Literal["exact", "asymptotic"]:
    if method not in ("auto", "exact", "asymptotic"):
        raise ValueError(f"method must be 'auto', 'exact' or 'asymptotic', not {method!r}")
    if method == "auto":
        return "exact" if size <= MOST_PAIRINGS else "asymptotic"
    return method


def _largest_distance(first: Array, second: Array, points: Array) -> int:
    """Return n1 * n2 times D, which is an integer."""
    below = (
        np.searchsorted(np.sort(first), points, side="right"),
        np.searchsorted(np.sort(second), points, side="right"),
    )
    return int(np.abs(below[0] * second.size - below[1] * first.size).max())


def _two_sample_p_value(largest: int, m: int, n: int, last: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a random arrangement reaches the distance at the end of a group of ties.

    The pooled values are dealt out one by one. `chance` is the distribution of the number of values in the first arm
    while the distance has not been reached. Probabilities that reach it are summed, so that small p-values keep digits.
    """
    # The smaller arm first: the table has one entry for each number of its values.
    if m > n:
        m, n = n, m
    held = np.arange(m + 1)
    chance = np.zeros(m + 1)
    chance[0], reached = 1.0, 0.0
    for dealt, is_last in enumerate(last.tolist()):
        left = m + n - dealt
        to_first = chance * (m - held) / left
        chance = chance * np.maximum(n - dealt + held, 0) / left
        chance[1:] += to_first[:-1]
        if is_last:
            far = np.abs(held * n - (dealt + 1 - held) * m) >= largest
            reached += float(chance[far].sum())
            chance[far] = 0.0
    return min(1.0, reached)
