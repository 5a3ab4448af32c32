"""Probability that one arm beats the other: dominance, common-language effect size, Cliff's delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Alternative, check_alternative, check_share
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.proportions.paired import tango_interval, tango_p_value
from pytest_crucible.stats.ranks.ranking import Counts, arms_by_level, doubled_wins, rounded_differences
from pytest_crucible.stats.results import Effect, Significance


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominance:
    """Numbers of pairs of a candidate and a baseline value in which the candidate is greater, equal or less."""

    greater: int
    equal: int
    less: int

    @property
    def cles(self) -> float:
        """P(candidate > baseline) + P(equal) / 2."""
        return (2 * self.greater + self.equal) / (2 * (self.greater + self.equal + self.less))

    @property
    def delta(self) -> float:
        """P(candidate > baseline) - P(candidate < baseline)."""
        return (self.greater - self.less) / (self.greater + self.equal + self.less)


def cles(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return P(candidate > baseline) + P(equal) / 2 of independent arms (the CLES), with Newcombe's interval.

    >>> effect = cles([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15, 0.05])
    >>> effect.value, round(effect.interval.low, 4), effect.interval.high
    (1.0, 0.6115, 1.0)
    """
    first, second = arms_by_level(candidate, baseline)
    value, sizes = _dominance(first, second).cles, (int(first.sum()), int(second.sum()))
    return Effect(name="cles", value=value, interval=cles_interval(value, *sizes, level=level))


def cles_interval(value: float, first: int, second: int, *, level: float = 0.95) -> Interval:
    """Return Newcombe's interval for a common-language effect size; `first` and `second` are the arms' sizes.

    Newcombe 2006 (SiM 25:559), method 5: the t with |value - t| = z sqrt(t (1 - t) [1 + N (1 - t) / (2 - t) +
    N t / (1 + t)] / (first second)), N = (first + second) / 2 - 1. Separated arms (value 0 or 1) have one end at the
    value and the other inside.

    >>> interval = cles_interval(0.75, 10, 12)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.5023, 0.893)
    """
    check_share(level, "level")
    if min(first, second) < 1 or not 0.0 <= value <= 1.0:
        raise ValueError(
            f"expected a share between 0 and 1 of two arms with values, not {value!r} of {first}, {second}"
        )
    z = float(ndtri(0.5 + level / 2))
    # The lower end is the upper end of the swapped arms: swapping mirrors the interval to the last bit.
    low, high = 1 - _upper_root(1 - value, first, second, z), _upper_root(value, first, second, z)
    return Interval(low=low, high=high, level=level, method="newcombe 5")


def cliffs_delta(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return Cliff's delta P(candidate > baseline) - P(candidate < baseline) of independent arms: 2 cles - 1.

    >>> effect = cliffs_delta([2, 4, 4, 5, 5], [1, 2, 3, 4])
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (0.65, -0.1409, 0.927)
    """
    first, second = arms_by_level(candidate, baseline)
    counts = _dominance(first, second)
    share = cles_interval(counts.cles, int(first.sum()), int(second.sum()), level=level)
    interval = replace(share, low=2 * share.low - 1, high=2 * share.high - 1)
    return Effect(name="cliffs delta", value=counts.delta, interval=interval)


def paired_superiority(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    level: float = 0.95,
    alternative: Alternative = "two-sided",
) -> Significance:
    """Return P(candidate > baseline) + P(equal) / 2 over pairs, for ordinal scores of the same samples.

    It is (1 + P(greater) - P(less)) / 2, so Tango's score interval and p-value for those two rates apply and never
    contradict each other; the interval is two-sided under each alternative. The statistic is (greater - less) /
    sqrt(greater + less). All pairs equal is degenerate: p is 1, and the interval shows how far n equal pairs may be from
    1/2. Raises NotEnoughData without pairs.

    >>> result = paired_superiority([4, 5, 3, 4, 5], [3, 3, 3, 4, 2])
    >>> result.estimate, round(result.interval.low, 4), round(result.interval.high, 4), round(result.p_value, 4)
    (0.8, 0.4524, 0.9412, 0.0833)
    """
    check_alternative(alternative)
    differences = rounded_differences(candidate, baseline)
    n = differences.size
    if not n:
        raise NotEnoughData("no pairs: how often one arm beats the other needs at least one")
    greater, less = int((differences > 0).sum()), int((differences < 0).sum())
    tango = tango_interval(greater, less, n, level=level)
    return Significance(
        method="paired superiority, tango score",
        statistic=(greater - less) / math.sqrt(greater + less) if greater + less else None,
        p_value=tango_p_value(greater, less, n, alternative=alternative),
        estimate=(n + greater - less) / (2 * n),
        interval=Interval(low=(1 + tango.low) / 2, high=(1 + tango.high) / 2, level=level, method="tango"),
        n=(n,),
        status="ok" if greater + less else "degenerate",
        note="" if greater + less else "all pairs are equal",
    )


def _dominance(first: Counts, second: Counts) -> Dominance:
    equal, total = int(first @ second), int(first.sum()) * int(second.sum())
    greater = (doubled_wins(first, second) - equal) // 2
    return Dominance(greater=greater, equal=equal, less=total - equal - greater)


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
