"""The difference of two proportions from independent samples: x1 of n1 against x2 of n2.

`compare_proportions` is the one to show: its interval and p-value come from one statistic and never contradict each
other. The other intervals are for comparison with reports.
"""

from __future__ import annotations

import math

import scipy

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Alternative, check_counts, check_share
from pytest_crucible.stats.proportions.one import wilson_interval
from pytest_crucible.stats.proportions.score import score_interval, score_method, score_statistic
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import normal_p_value


def compare_proportions(
    x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Significance:
    """Return x1 / n1 - x2 / n2 with the skewness-corrected score interval and the p-value of the same statistic.

    Laud 2017 (Pharm Stat 16:334); R: ratesci::scoreci(x1, n1, x2, n2). It excludes 0 exactly when p < 1 - level.

    >>> result = compare_proportions(56, 70, 48, 80)
    >>> round(result.estimate, 4), round(result.interval.low, 4), round(result.p_value, 6)
    (0.2, 0.0534, 0.008039)
    """
    interval = score_interval(x1, n1, x2, n2, level=level, alternative=alternative)
    z = score_statistic(x1, n1, x2, n2)
    # All successes or all failures: the statistic is 0 / 0, the interval still exists.
    constant = x1 + x2 in (0, n1 + n2)
    return Significance(
        method=score_method(skewness=True),
        statistic=None if constant else z,
        p_value=None if z is None else normal_p_value(z, alternative),
        estimate=None if z is None else x1 / n1 - x2 / n2,
        interval=interval,
        n=(n1, n2),
        status="insufficient_data" if z is None else "degenerate" if constant else "ok",
        note=describe_degenerate(x1, n1, x2, n2),
    )


def newcombe_interval(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95) -> Interval:
    """Return Newcombe's hybrid score interval: the distances of both Wilson intervals, squared and added.

    Newcombe 1998 (SiM 17:873), method 10. [-1, 1] when an arm is empty.

    >>> interval = newcombe_interval(56, 70, 48, 80)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0524, 0.3339)
    """
    first, second = wilson_interval(x1, n1, level=level), wilson_interval(x2, n2, level=level)
    if not (n1 and n2):
        return Interval(low=-1.0, high=1.0, level=level, method="newcombe")
    rate1, rate2 = x1 / n1, x2 / n2
    # Square-and-add: the lower end of a difference combines the first arm's lower with the second's upper distance.
    below = math.hypot(rate1 - first.low, second.high - rate2)
    above = math.hypot(first.high - rate1, rate2 - second.low)
    return Interval(low=rate1 - rate2 - below, high=rate1 - rate2 + above, level=level, method="newcombe")


def agresti_caffo_interval(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, clip: bool = True) -> Interval:
    """Return the Agresti-Caffo interval: Wald after adding one success and one failure to each arm.

    Agresti & Caffo 2000 (Am Stat 54:280). It may extend beyond -1 or 1; `clip` cuts it there.

    >>> interval = agresti_caffo_interval(56, 70, 48, 80)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0525, 0.3358)
    """
    _check(x1, n1, x2, n2, level)
    return _wald(x1 + 1, n1 + 2, x2 + 1, n2 + 2, level, "agresti-caffo", clip)


def wald_difference_interval(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95) -> Interval:
    """Return the textbook interval for a difference of proportions, for comparison only. [-1, 1] for an empty arm.

    Its exact coverage falls to .18 for arms of 10, and 10 of 10 against 0 of 20 give an interval of width 0.

    >>> interval = wald_difference_interval(56, 70, 48, 80)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0575, 0.3425)
    """
    _check(x1, n1, x2, n2, level)
    if not (n1 and n2):
        return Interval(low=-1.0, high=1.0, level=level, method="wald")
    return _wald(x1, n1, x2, n2, level, "wald", True)


def pooled_z_p_value(x1: int, n1: int, x2: int, n2: int, *, alternative: Alternative = "two-sided") -> float | None:
    """Return the p-value of the pooled z test of equal proportions; R: prop.test(c(x1, x2), c(n1, n2), correct=FALSE).

    None for an empty arm; the z of samples that all have the same outcome is 0.

    >>> round(pooled_z_p_value(56, 70, 48, 80), 6)
    0.008045
    """
    _check(x1, n1, x2, n2, 0.95)
    if not (n1 and n2):
        return None
    rate = (x1 + x2) / (n1 + n2)
    se = math.sqrt(rate * (1 - rate) * (1 / n1 + 1 / n2))
    return normal_p_value((x1 / n1 - x2 / n2) / se if se else 0.0, alternative)


def _check(x1: int, n1: int, x2: int, n2: int, level: float) -> None:
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)
    check_share(level, "level")


def _wald(x1: int, n1: int, x2: int, n2: int, level: float, method: str, clip: bool) -> Interval:
    rate1, rate2 = x1 / n1, x2 / n2
    half = float(scipy.special.ndtri(0.5 + level / 2)) * math.sqrt(rate1 * (1 - rate1) / n1 + rate2 * (1 - rate2) / n2)
    low, high = rate1 - rate2 - half, rate1 - rate2 + half
    if clip:
        low, high = max(low, -1.0), min(high, 1.0)
    return Interval(low=low, high=high, level=level, method=method)


def describe_degenerate(x1: int, n1: int, x2: int, n2: int) -> str:
    """Return why a statistic does not exist; empty if it does."""
    if not (n1 and n2):
        return "an arm without values cannot be compared"
    return "all samples of both arms have the same outcome" if x1 + x2 in (0, n1 + n2) else ""
