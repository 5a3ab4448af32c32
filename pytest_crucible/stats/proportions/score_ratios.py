"""Score intervals for the risk ratio and the odds ratio of two independent proportions.

At a ratio of 1 their statistics equal that of the difference, so that all three intervals and `score_p_value` agree
whether the arms differ. Cells may be 0: 5 of 56 against 0 of 29 have a lower end. Miettinen & Nurminen 1985
(SiM 4:213); skewness correction of Gart & Nam 1988 (Biometrics 44:323) and Laud 2017 (Pharm Stat 16:334).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri

from pytest_crucible.stats.arrays import check_counts, check_share
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.proportions.score import difference_statistic, score_method, without_skewness
from pytest_crucible.stats.results import Effect

SMALLEST = 1e-12
"""A ratio that is treated as 0 when the search for the lower end starts."""

Statistic = Callable[[int, int, int, int, float, bool], float]


def risk_ratio_score(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, skewness: bool = True) -> Effect:
    """Return (x1 / n1) / (x2 / n2) with its score interval.

    R: ratesci::scoreci(x1, n1, x2, n2, contrast="RR", skew=skewness). None, with the interval from 0 to infinity, when no
    arm has successes or an arm is empty.

    >>> effect = risk_ratio_score(5, 56, 0, 29)
    >>> effect.value, round(effect.interval.low, 4), effect.interval.high
    (inf, 0.7696, inf)
    """
    _check(x1, n1, x2, n2, level)
    return _effect("risk ratio", _risk_statistic, (x1, n1, x2, n2), (x1 * n2, x2 * n1), level, skewness)


def odds_ratio_score(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, skewness: bool = True) -> Effect:
    """Return the sample odds ratio with its score interval; R: ratesci::scoreci(contrast="OR", skew=FALSE).

    With skewness, ratesci adds a bias term for the odds ratio alone; without that term the interval agrees with the test
    of the difference. None, with the interval from 0 to infinity, when all samples have the same outcome or an arm is
    empty.

    >>> effect = odds_ratio_score(5, 56, 1, 29, skewness=False)
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 3)
    (2.7451, 0.3929, 18.568)
    """
    _check(x1, n1, x2, n2, level)
    return _effect("odds ratio", _odds_statistic, (x1, n1, x2, n2), (x1 * (n2 - x2), x2 * (n1 - x1)), level, skewness)


def _check(x1: int, n1: int, x2: int, n2: int, level: float) -> None:
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)
    check_share(level, "level")


def _effect(
    name: str,
    statistic: Statistic,
    arms: tuple[int, int, int, int],
    ratio: tuple[int, int],
    level: float,
    skewness: bool,
) -> Effect:
    above, below = ratio
    z, swapped = float(ndtri(0.5 + level / 2)), (*arms[2:], *arms[:2])
    # The upper end is the lower end of the swapped arms, inverted: swapping inverts the interval to the last bit.
    low = _lower_end(statistic, arms, above, below, z, skewness)
    inverse = _lower_end(statistic, swapped, below, above, z, skewness)
    high = 1 / inverse if inverse else math.inf
    return Effect(
        name=name,
        value=above / below if below else math.inf if above else None,
        interval=Interval(low=low, high=high, level=level, method=score_method(skewness)),
        note="" if above or below else "the ratio is 0 / 0",
    )


def _lower_end(
    statistic: Statistic, arms: tuple[int, int, int, int], above: int, below: int, z: float, skewness: bool
) -> float:
    """Return the ratio below the estimate at which the statistic passes z; 0 when it never does.

    The search bisects the share = ratio / (1 + ratio) down to neighbouring floats. The statistic of the difference
    decides on which side of a ratio of 1 it starts, so that interval and p-value agree.
    """
    excludes_1 = 0 not in (arms[1], arms[3]) and difference_statistic(*arms, 0.0, skewness) > z
    estimate = above / (above + below) if above else 0.0
    low, high = (0.5, estimate if estimate > 0.5 else 1.0) if excludes_1 else (0.0, min(estimate, 0.5))
    if low == high or (low == 0.0 and statistic(*arms, SMALLEST, skewness) <= z):
        return low
    while low < (middle := (low + high) / 2) < high:
        if statistic(*arms, middle / (1 - middle), skewness) > z:
            low = middle
        else:
            high = middle
    return low / (1 - low)


def _risk_statistic(x1: int, n1: int, x2: int, n2: int, ratio: float, skewness: bool) -> float:
    linear = (n1 + x2) * ratio + n2 + x1
    root = math.sqrt(max(linear * linear - 4 * (n1 + n2) * ratio * (x1 + x2), 0.0))
    second = 2 * (x1 + x2) / (linear + root)
    first = min(second * ratio, 1.0)
    # The constrained variance of x1 / n1 - ratio * x2 / n2 (Miettinen & Nurminen 1985).
    spread1, spread2 = first * (1 - first) / n1, ratio * ratio * second * (1 - second) / n2
    third = spread1 * (1 - 2 * first) / n1 - spread2 * ratio * (1 - 2 * second) / n2
    return _standardise(x1 / n1 - ratio * x2 / n2, spread1 + spread2, third, n1 + n2, skewness)


def _odds_statistic(x1: int, n1: int, x2: int, n2: int, ratio: float, skewness: bool) -> float:
    # The constrained rates for a fixed odds ratio solve a quadratic (Miettinen & Nurminen 1985).
    successes, square = x1 + x2, n2 * (ratio - 1)
    linear = ratio * (n1 - successes) + n2 + successes
    root = math.sqrt(max(linear * linear + 4 * square * successes, 0.0))
    # Of the two forms of the root, the one that does not cancel.
    second = 2 * successes / (root + linear) if linear > 0 else (root - linear) / (2 * square)
    first = second * ratio / (1 + second * (ratio - 1))
    information1, information2 = n1 * first * (1 - first), n2 * second * (1 - second)
    if not (information1 > 0 and information2 > 0):
        return math.copysign(math.inf, x1 - n1 * first)
    variance = 1 / information1 + 1 / information2
    third = (1 - 2 * first) / information1**2 - (1 - 2 * second) / information2**2
    return _standardise((x1 - n1 * first) * variance, variance, third, n1 + n2, skewness)


def _standardise(distance: float, variance: float, third: float, n: int, skewness: bool) -> float:
    """Return the distance in standard errors, with Miettinen & Nurminen's n / (n - 1), and without skewness if asked."""
    variance *= n / (n - 1)
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    z = distance / math.sqrt(variance)
    return without_skewness(z, third / (6 * variance * math.sqrt(variance))) if skewness else z
