"""Probability that one arm beats the other: dominance, common-language effect size, Cliff's delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, check_alternative, check_share
from pytest_crucible.stats.counts.correlations import fisher_interval
from pytest_crucible.stats.proportions.paired import tango_interval, tango_p_value
from pytest_crucible.stats.ranks.ranking import Counts, arms_by_level, doubled_wins, placements, rounded_differences
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CliffsDelta(Effect):
    """Cliff's delta with its standard error, which is None when the arms are separated or all values are equal."""

    se: float | None


def dominance(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Dominance:
    """Return the counts over all pairs of values of two independent arms, by sorting, without n1 * n2 memory.

    Raises NotEnoughData for an empty arm.

    >>> dominance([2.0, 3.0, 3.0], [1.0, 3.0])
    Dominance(greater=3, equal=2, less=1)
    """
    return _dominance(*arms_by_level(candidate, baseline))


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


def cliffs_delta(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    level: float = 0.95,
    interval: Literal["newcombe", "feng-cliff", "fisher"] = "newcombe",
) -> CliffsDelta:
    """Return Cliff's delta P(candidate > baseline) - P(candidate < baseline) of independent arms.

    newcombe: that of 2 * cles - 1, the only one that stays an interval for separated arms. feng-cliff: asymmetric
    (Feng & Cliff 2004), t with n1 + n2 - 2 degrees; R: effsize::cliff.delta. fisher: tanh(atanh(delta) -+ z sqrt((n1 +
    n2 + 1) / (3 n1 n2))); R: effectsize::cliffs_delta. Raises NotEnoughData below two values in an arm.

    >>> effect = cliffs_delta([2, 4, 4, 5, 5], [1, 2, 3, 4], interval="feng-cliff")
    >>> effect.value, round(effect.interval.low, 4), round(effect.interval.high, 4)
    (0.65, -0.2887, 0.9515)
    """
    check_share(level, "level")
    if interval not in ("newcombe", "feng-cliff", "fisher"):
        raise ValueError(f"the interval must be newcombe, feng-cliff or fisher, not {interval!r}")
    first, second = arms_by_level(candidate, baseline, fewest=2)
    counts, n1, n2 = _dominance(first, second), int(first.sum()), int(second.sum())
    # A variance of 0 means separated or equal arms: no standard error, and no interval from it.
    se = math.sqrt(_delta_variance(first, second, counts)) or None
    limits: Interval | None
    if interval == "newcombe":
        limits = double_interval(cles_interval(counts.cles, n1, n2, level=level))
    elif interval == "fisher":
        limits = fisher_interval(counts.delta, math.sqrt((n1 + n2 + 1) / (3 * n1 * n2)), level=level, method="fisher")
    else:
        limits = None if se is None else _feng_cliff(counts.delta, se, n1 + n2 - 2, level)
    note = "" if limits else f"the {interval} interval would be a single point: use newcombe"
    return CliffsDelta(name="cliffs delta", value=counts.delta, interval=limits, se=se, note=note)


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


def double_interval(interval: Interval) -> Interval:
    """Return the interval of a common-language effect size on the scale of Cliff's delta, 2 x - 1."""
    return Interval(low=2 * interval.low - 1, high=2 * interval.high - 1, level=interval.level, method=interval.method)


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


def _delta_variance(first: Counts, second: Counts, counts: Dominance) -> float:
    """Return the consistent variance of delta, [(n2 - 1) S_i + (n1 - 1) S_j + S_ij] / (n1 n2), Cliff 1996."""
    n1, n2, delta = int(first.sum()), int(second.sum()), counts.delta
    rows = placements(first, second) / n2 - 1 - delta
    columns = 1 - placements(second, first) / n1 - delta
    inside = counts.greater + counts.less - n1 * n2 * delta * delta
    between = (n2 - 1) * float(first @ rows**2) / (n1 - 1) + (n1 - 1) * float(second @ columns**2) / (n2 - 1)
    return max(0.0, between + inside / ((n1 - 1) * (n2 - 1))) / (n1 * n2)


def _feng_cliff(delta: float, se: float, dof: int, level: float) -> Interval:
    t = -float(stdtrit(dof, (1 - level) / 2))
    # Feng & Cliff 2004: the asymmetric interval stays inside [-1, 1].
    rest = 1 - delta * delta
    half, share = t * se * math.sqrt(rest * rest + (t * se) ** 2), rest + (t * se) ** 2
    low, high = (delta * rest - half) / share, (delta * rest + half) / share
    return Interval(low=low, high=high, level=level, method="feng-cliff")
