"""Probability that one arm beats the other: dominance, common-language effect size, Cliff's delta."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    ROUNDING,
    Array,
    check_share,
    finite,
    paired_arrays,
)
from pytest_crucible.stats.distributions import normal_quantile
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.proportions.paired import tango_interval, tango_p_value
from pytest_crucible.stats.results import Effect, Significance

Counts = npt.NDArray[np.int64]

_DIGITS = 10
"""Significant decimals of a difference, counted from the leading digit of the larger of its two values."""


def levels(values: Array) -> tuple[Counts, Counts]:
    """Return the index of each value among the distinct values, from 0 upwards, and the size of each tie.

    >>> [array.tolist() for array in levels(np.array([0.3, 0.5, 0.1 + 0.2, 0.1]))]
    [[1, 2, 1, 0], [1, 2, 1]]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    size = np.abs(ordered)
    # The step from -1e308 to 1e308 overflows to infinity, which is still a step.
    with np.errstate(over="ignore"):
        steps = np.diff(ordered) > ROUNDING * np.maximum(size[1:], size[:-1])
    codes = np.empty(values.size, dtype=np.int64)
    codes[order] = np.concatenate(([0], np.cumsum(steps)))[: values.size]
    return codes, np.bincount(codes).astype(np.int64)


def arms_by_level(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> tuple[Counts, Counts]:
    """Return the counts of each distinct value in the candidate and in the baseline, smallest value first.

    Every rank statistic of two independent arms follows from them. Raises ValueError for NaN, NotEnoughData without values.

    >>> [array.tolist() for array in arms_by_level([2.0, 3.0, 3.0], [1.0, 3.0])]
    [[0, 1, 2], [1, 0, 1]]
    """
    first, second = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    if not min(first.size, second.size):
        raise NotEnoughData(f"{first.size} candidate and {second.size} baseline values: ranks need at least 1 of each")
    codes, sizes = levels(np.concatenate((first, second)))
    inside = np.bincount(codes[: first.size], minlength=sizes.size).astype(np.int64)
    return inside, sizes - inside


def rounded_differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike | None = None) -> Array:
    """Return candidate minus baseline, rounded to ten significant decimals of the larger value; R: round(x - y, 10).

    Otherwise 0.3 - 0.2 and 0.2 - 0.1 would have different ranks. Each pair has its own scale, so that one huge pair does
    not make the others equal. Without a baseline the values are differences already.

    >>> rounded_differences([0.3, 0.2, 3000.3], [0.2, 0.1, 3000.2]).tolist()
    [0.1, 0.1, 0.1]
    """
    if baseline is None:
        differences = finite(candidate, name="differences")
        scale = np.abs(differences)
    else:
        first, second = paired_arrays(candidate, baseline)
        with np.errstate(over="ignore"):
            differences = finite(first - second, name="differences")
        scale = np.maximum(np.abs(first), np.abs(second))
    return _to_decimals(differences, scale)


def _to_decimals(differences: Array, scale: Array) -> Array:
    exponents = np.ceil(np.log10(scale, out=np.zeros_like(scale), where=scale > 0))
    decimals = np.clip(_DIGITS - exponents, -290, 290)
    # Powers of ten are exact up to 1e22, and a quotient of integers is the double nearest to the decimal.
    power = 10.0 ** np.abs(decimals)
    fine = decimals >= 0
    whole = np.rint(np.where(fine, differences * np.where(fine, power, 1.0), differences / power))
    return np.where(fine, whole / power, whole * np.where(fine, 1.0, power))


def cles(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return P(candidate > baseline) + P(equal) / 2 of independent arms (the CLES), with Newcombe's interval.

    >>> effect = cles([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15, 0.05])
    >>> effect.value, round(effect.interval.low, 4), effect.interval.high
    (1.0, 0.6115, 1.0)
    """
    value, _, sizes = _shares_of_wins(candidate, baseline)
    return Effect(name="cles", value=value, interval=cles_interval(value, *sizes, level=level))


def cles_interval(value: float, first: int, second: int, *, level: float = 0.95) -> Interval:
    """Return Newcombe's interval for a common-language effect size; `first` and `second` are the arms' sizes.

    Newcombe 2006 (SiM 25:559), method 5: the t with |value - t| = z sqrt(t (1 - t) [1 + N (1 - t) / (2 - t) +
    N t / (1 + t)] / (first second)), N = (first + second) / 2 - 1. Separated arms (value 0 or 1) have one end at the
    value and the other inside.
    """
    check_share(level, "level")
    if min(first, second) < 1 or not 0.0 <= value <= 1.0:
        raise ValueError(
            f"expected a share between 0 and 1 of two arms with values, not {value!r} of {first}, {second}"
        )
    z = normal_quantile(0.5 + level / 2)
    # The lower end is the upper end of the swapped arms: swapping mirrors the interval to the last bit.
    low, high = 1 - _upper_root(1 - value, first, second, z), _upper_root(value, first, second, z)
    return Interval(low=low, high=high, level=level, method="newcombe 5")


def cliffs_delta(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return Cliff's delta P(candidate > baseline) - P(candidate < baseline) of independent arms: 2 cles - 1.

    >>> effect = cliffs_delta([2, 4, 4, 5, 5], [1, 2, 3, 4])
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (0.65, -0.1409, 0.927)
    """
    value, delta, sizes = _shares_of_wins(candidate, baseline)
    share = cles_interval(value, *sizes, level=level)
    interval = replace(share, low=2 * share.low - 1, high=2 * share.high - 1)
    return Effect(name="cliffs delta", value=delta, interval=interval)


def paired_superiority(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Significance:
    """Return P(candidate > baseline) + P(equal) / 2 over pairs, for ordinal scores of the same samples.

    It is (1 + P(greater) - P(less)) / 2, so Tango's score interval and p-value for those two rates apply and never
    contradict each other. The statistic is (greater - less) /
    sqrt(greater + less). All pairs equal is degenerate: p is 1, and the interval shows how far n equal pairs may be from
    1/2. Raises NotEnoughData without pairs.
    """
    differences = rounded_differences(candidate, baseline)
    n = differences.size
    if not n:
        raise NotEnoughData("no pairs: how often one arm beats the other needs at least one")
    greater, less = int((differences > 0).sum()), int((differences < 0).sum())
    tango = tango_interval(greater, less, n, level=level)
    return Significance(
        method="paired superiority, tango score",
        statistic=(greater - less) / math.sqrt(greater + less) if greater + less else None,
        p_value=tango_p_value(greater, less, n),
        estimate=(n + greater - less) / (2 * n),
        interval=Interval(low=(1 + tango.low) / 2, high=(1 + tango.high) / 2, level=level, method="tango"),
        n=(n,),
        status="ok" if greater + less else "degenerate",
        note="" if greater + less else "all pairs are equal",
    )


def _shares_of_wins(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> tuple[float, float, tuple[int, int]]:
    """Return P(candidate > baseline) + P(equal) / 2, P(greater) - P(less), and the arms' sizes."""
    first, second = arms_by_level(candidate, baseline)
    sizes = int(first.sum()), int(second.sum())
    equal, total = int(first @ second), sizes[0] * sizes[1]
    # Twice the Mann-Whitney U of the candidate: 2 for each pair that it wins, 1 for each tie.
    greater = (int(first @ (2 * np.cumsum(second) - second)) - equal) // 2
    less = total - equal - greater
    return (2 * greater + equal) / (2 * total), (greater - less) / total, sizes


def _upper_root(value: float, first: int, second: int, z: float) -> float:
    """Return the share at which the distance to `value` exceeds z standard errors, by bisection to neighbouring floats."""
    scale, n = z * z / (first * second), (first + second) / 2 - 1
    low, high = value, 1.0
    while low < (t := (low + high) / 2) < high:
        if (t - value) ** 2 <= scale * t * (1 - t) * (1 + n * (1 - t) / (2 - t) + n * t / (1 + t)):
            low = t
        else:
            high = t
    return high
