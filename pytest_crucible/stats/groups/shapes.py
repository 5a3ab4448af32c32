"""The shape of a distribution: Shapiro-Wilk and Kolmogorov-Smirnov.

They describe, and no more: no method of this package is chosen by them. A test of means that is picked after a test of
shape keeps neither its level nor its question.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import kolmogorov, ndtr

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.observations import Array, finite, is_constant

Method = Literal["auto", "exact", "asymptotic"]

MOST_SHAPIRO = 5000
"""Royston's approximation was fitted up to here; R refuses more as well."""
MOST_PAIRINGS = 250_000
"""n1 * n2 up to which `auto` counts exactly: some milliseconds."""


def shapiro_wilk(values: npt.ArrayLike) -> Significance:
    """Shapiro & Wilk's W with Royston's p-value (1995), for "the values are normal"; R: shapiro.test(x).

    No method of this package is chosen by it. Equal values have no W. Raises NotEnoughData below three values and
    ValueError above 5000.

    >>> result = shapiro_wilk([0.1, 0.5, 0.6])
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (0.892857, 0.363113)
    """
    array = finite(values)
    if array.size < 3:
        raise NotEnoughData(f"{counted(array.size, 'value')}: a shape needs at least 3")
    if array.size > MOST_SHAPIRO:
        raise ValueError(f"{array.size} values: the p-value of shapiro-wilk is known up to {MOST_SHAPIRO}")
    if is_constant(array):
        note = "all values are equal"
        return Significance(
            method="shapiro-wilk", statistic=None, p_value=None, n=(array.size,), status="degenerate", note=note
        )
    from scipy.stats import shapiro

    found = shapiro((array - np.median(array)) / np.abs(array - np.median(array)).max())
    return Significance(
        method="shapiro-wilk", statistic=float(found.statistic), p_value=float(found.pvalue), n=(array.size,)
    )


def ks_normal(values: npt.ArrayLike, *, mean: float, deviation: float, method: Method = "exact") -> Significance:
    """Largest distance D between the empirical distribution and one given normal distribution, two-sided.

    R: ks.test(x, "pnorm", mean, deviation). Mean and deviation are known beforehand: estimated from the same values the
    p-value would be far too large (that is Lilliefors' question). No method of this package is chosen by it. Raises
    NotEnoughData without values.

    >>> result = ks_normal([-0.4, 0.2, 1.3], mean=0.0, deviation=1.0)
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (0.344578, 0.747555)
    """
    array = finite(values)
    if not deviation > 0 or not math.isfinite(mean + deviation):
        raise ValueError(f"wanted a finite mean and a positive deviation, not {mean!r} and {deviation!r}")
    if not array.size:
        raise NotEnoughData("0 values: a distribution needs at least 1")
    n = array.size
    expected = ndtr((np.sort(array) - mean) / deviation)
    steps = np.arange(n)
    distance = float(max(np.max(expected - steps / n), np.max((steps + 1) / n - expected)))
    chosen = _checked(method, n)
    p_value = _one_sample_p_value(distance, n) if chosen == "exact" else float(kolmogorov(math.sqrt(n) * distance))
    return Significance(
        method=f"kolmogorov-smirnov, normal, {chosen}", statistic=distance, p_value=min(1.0, p_value), n=(n,)
    )


def ks_two_sample(x: npt.ArrayLike, y: npt.ArrayLike, *, method: Method = "auto") -> Significance:
    """Largest distance D between two empirical distributions, two-sided; R: ks.test(x, y).

    Exact: the share of arrangements of the pooled values into two arms with a distance as large, ties included
    (Schröer & Trenkler 1995); `auto` is exact up to n1 * n2 = 250 000. No method of this package is chosen by it. Raises
    NotEnoughData for an empty arm.

    >>> result = ks_two_sample([1, 2, 3], [4, 5, 6])
    >>> result.statistic, round(result.p_value, 6), result.method
    (1.0, 0.1, 'kolmogorov-smirnov, exact')
    """
    first, second = finite(x, name="x values"), finite(y, name="y values")
    if not first.size or not second.size:
        raise NotEnoughData(f"{first.size} and {second.size} values: each distribution needs at least 1")
    m, n = first.size, second.size
    pooled = np.sort(np.concatenate([first, second]))
    last = np.append(pooled[1:] != pooled[:-1], True)
    largest = _largest_distance(first, second, pooled[last])
    chosen = _checked(method, m * n)
    if chosen == "exact":
        p_value = _two_sample_p_value(largest, m, n, last)
    else:
        p_value = float(kolmogorov(largest / math.sqrt(m * n * (m + n))))
    return Significance(method=f"kolmogorov-smirnov, {chosen}", statistic=largest / (m * n), p_value=p_value, n=(m, n))


def _checked(method: Method, size: int) -> Literal["exact", "asymptotic"]:
    if method not in ("auto", "exact", "asymptotic"):
        raise ValueError(f"the method is 'auto', 'exact' or 'asymptotic', not {method!r}")
    if method == "auto":
        return "exact" if size <= MOST_PAIRINGS else "asymptotic"
    return method


def _one_sample_p_value(distance: float, n: int) -> float:
    from scipy.stats import kstwo

    return float(kstwo.sf(distance, n))


def _largest_distance(first: Array, second: Array, points: Array) -> int:
    """n1 * n2 times D, which is a whole number."""
    below = (
        np.searchsorted(np.sort(first), points, side="right"),
        np.searchsorted(np.sort(second), points, side="right"),
    )
    return int(np.abs(below[0] * second.size - below[1] * first.size).max())


def _two_sample_p_value(largest: int, m: int, n: int, last: npt.NDArray[np.bool_]) -> float:
    """Probability that a random arrangement reaches the distance at the last of some tied values.

    The pooled values are dealt out one by one; `chance` is the law of how many of them the first arm has, as long as the
    distance was not reached. What reaches it is added up, so that small p-values keep their digits.
    """
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
