"""From a statistic to a p-value and from a standard error to an interval, under each alternative.

Survival functions are never 1 - cdf: small p-values keep their digits.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri, stdtr, stdtrit

from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import Alternative, check_alternative, check_share


def t_p_value(statistic: float, dof: float, alternative: Alternative = "two-sided") -> float:
    """P-value of a t statistic; R: 2 * pt(-abs(t), df).

    >>> round(t_p_value(2.0, 10, "greater"), 6)
    0.036694
    """
    check_alternative(alternative)
    if alternative == "two-sided":
        return float(2 * stdtr(dof, -abs(statistic)))
    return float(stdtr(dof, -statistic if alternative == "greater" else statistic))


def normal_p_value(z: float, alternative: Alternative = "two-sided") -> float:
    """P-value of a standard normal statistic; R: 2 * pnorm(-abs(z)).

    >>> round(normal_p_value(1.959964), 6)
    0.05
    """
    check_alternative(alternative)
    if alternative == "two-sided":
        return float(2 * ndtr(-abs(z)))
    return float(ndtr(-z if alternative == "greater" else z))


def t_interval(
    estimate: float, se: float, dof: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval:
    """estimate -+ t * se; one-sided alternatives give the interval with an infinite end, as R's t.test does.

    >>> interval = t_interval(1.0, 0.5, 10, level=0.95, method="t", alternative="greater")
    >>> round(interval.low, 4), interval.high
    (0.0938, inf)
    """
    check_share(level, "level")
    half = -float(stdtrit(dof, tail_share(1 - level, alternative))) * se
    return _around(estimate, half, level, method, alternative)


def normal_interval(
    estimate: float, se: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval:
    """estimate -+ z * se, with an infinite end for one-sided alternatives.

    >>> interval = normal_interval(0.0, 1.0, level=0.95, method="normal")
    >>> round(interval.low, 4), round(interval.high, 4)
    (-1.96, 1.96)
    """
    check_share(level, "level")
    half = -float(ndtri(tail_share(1 - level, alternative))) * se
    return _around(estimate, half, level, method, alternative)


def tail_share(error: float, alternative: Alternative) -> float:
    """The share of an error rate that each tail in question has: half of it, or for a one-sided alternative all.

    >>> tail_share(0.05, "two-sided"), tail_share(0.05, "less")
    (0.025, 0.05)
    """
    check_alternative(alternative)
    return error / 2 if alternative == "two-sided" else error


def _around(estimate: float, half: float, level: float, method: str, alternative: Alternative) -> Interval:
    low = -math.inf if alternative == "less" else estimate - half
    high = math.inf if alternative == "greater" else estimate + half
    return Interval(low=low, high=high, level=level, method=method)
