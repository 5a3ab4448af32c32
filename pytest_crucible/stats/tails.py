"""P-values of t and z statistics, and intervals from standard errors, for each alternative.

Upper tails are never computed as 1 - cdf, so that small p-values keep their digits.
"""

from __future__ import annotations

import math

import scipy

from pytest_crucible.stats.arrays import Alternative, check_alternative, check_share
from pytest_crucible.stats.interval import Interval


def t_p_value(statistic: float, dof: float, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a t statistic; R: 2 * pt(-abs(t), df).

    >>> round(t_p_value(2.0, 10, "greater"), 6)
    0.036694
    """
    check_alternative(alternative)
    if alternative == "two-sided":
        return float(2 * scipy.special.stdtr(dof, -abs(statistic)))
    return float(scipy.special.stdtr(dof, -statistic if alternative == "greater" else statistic))


def normal_p_value(z: float, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a standard normal statistic; R: 2 * pnorm(-abs(z)).

    >>> round(normal_p_value(1.959964), 6)
    0.05
    """
    check_alternative(alternative)
    if alternative == "two-sided":
        return float(2 * scipy.special.ndtr(-abs(z)))
    return float(scipy.special.ndtr(-z if alternative == "greater" else z))


def t_interval(
    estimate: float, se: float, dof: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval:
    """Return estimate -+ t * se; one-sided alternatives have one infinite end, as in R's t.test.

    >>> interval = t_interval(1.0, 0.5, 10, level=0.95, method="t", alternative="greater")
    >>> round(interval.low, 4), interval.high
    (0.0938, inf)
    """
    check_share(level, "level")
    # The lower quantile with its sign changed: 1 - tail would lose the digits of a small tail.
    half = -float(scipy.special.stdtrit(dof, tail_share(1 - level, alternative))) * se
    return _interval_around(estimate, half, level, method, alternative)


def normal_interval(
    estimate: float, se: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval:
    """Return estimate -+ z * se, with one infinite end for one-sided alternatives.

    >>> interval = normal_interval(0.0, 1.0, level=0.95, method="normal")
    >>> round(interval.low, 4), round(interval.high, 4)
    (-1.96, 1.96)
    """
    check_share(level, "level")
    half = -float(scipy.special.ndtri(tail_share(1 - level, alternative))) * se
    return _interval_around(estimate, half, level, method, alternative)


def tail_share(error: float, alternative: Alternative) -> float:
    """Return the share of an error rate in each tested tail: half of it; for a one-sided alternative all.

    >>> tail_share(0.05, "two-sided"), tail_share(0.05, "less")
    (0.025, 0.05)
    """
    check_alternative(alternative)
    return error / 2 if alternative == "two-sided" else error


def _interval_around(estimate: float, half: float, level: float, method: str, alternative: Alternative) -> Interval:
    low = -math.inf if alternative == "less" else estimate - half
    high = math.inf if alternative == "greater" else estimate + half
    return Interval(low=low, high=high, level=level, method=method)
