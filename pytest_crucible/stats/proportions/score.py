"""The score statistic for the difference of two independent proportions, used for interval, test and margin.

The variance is that of the most likely pair of rates with the stated difference, times n / (n - 1) (Miettinen &
Nurminen 1985, SiM 4:213). With the skewness correction (Gart & Nam 1990, Biometrics 46:637; Laud 2017, Pharm Stat
16:334) both tails err about equally often, also when one arm is much larger. By exact enumeration over 14 pairs of arm
sizes from 10 to 200, a nominal 5 % test errs in at most 5.7 % with it and in up to 9.1 % without (50 against 200).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pytest_crucible.stats.arrays import Alternative, Array, check_arms, check_share
from pytest_crucible.stats.distributions import normal_quantile
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import tail_share
from pytest_crucible.stats.results import Effect

NEGLIGIBLE = math.ulp(1.0)
"""Differences below this are treated as 0: added to a rate near 1, they would vanish by rounding."""


def score_interval(
    x1: int,
    n1: int,
    x2: int,
    n2: int,
    *,
    level: float = 0.95,
    alternative: Alternative = "two-sided",
    skewness: bool = True,
) -> Interval:
    """Return the score interval for x1 / n1 - x2 / n2. [-1, 1] when an arm is empty; one-sided ones end at -1 or 1.

    It excludes 0 exactly when the p-value of `score_statistic` is below 1 - level.
    R: ratesci::scoreci(x1, n1, x2, n2, skew=skewness).
    """
    check_arms(x1, n1, x2, n2)
    check_share(level, "level")
    z = -normal_quantile(tail_share(1 - level, alternative))
    has_values = n1 > 0 and n2 > 0
    # The lower end is the upper end of the swapped arms: swapping negates the interval to the last bit.
    low = -_upper_end(x2, n2, x1, n1, z, skewness) if has_values and alternative != "less" else -1.0
    high = _upper_end(x1, n1, x2, n2, z, skewness) if has_values and alternative != "greater" else 1.0
    return Interval(low=low, high=high, level=level, method=score_method(skewness))


def score_statistic(
    x1: int, n1: int, x2: int, n2: int, *, difference: float = 0.0, skewness: bool = True
) -> float | None:
    """Return the score z for "the true difference is `difference`"; positive when the data lie above it.

    None for an empty arm.

    At 0 and without the skewness correction it is the pooled z times sqrt((n - 1) / n).
    """
    check_arms(x1, n1, x2, n2)
    if not -1.0 <= difference <= 1.0:
        raise ValueError(f"a difference of proportions must lie between -1 and 1, not {difference!r}")
    return difference_statistic(x1, n1, x2, n2, difference, skewness) if n1 and n2 else None


def score_method(skewness: bool) -> str:
    """Return the name of the method in results.

    >>> score_method(False)
    'miettinen-nurminen'
    """
    return "miettinen-nurminen, skewness-corrected" if skewness else "miettinen-nurminen"


def constrained_rate(x1: int, n1: int, x2: int, n2: int, difference: float) -> float:
    """Return the most likely second rate if the first is larger by `difference` >= 0. Checks nothing.

    The likelihood equation is a cubic; its root is found in cosine form. One step of Newton's method on the equation
    itself recovers the digits that the cubic loses where two of its roots nearly coincide.
    """
    if difference == 0.0:
        return (x1 + x2) / (n1 + n2)
    largest = 1.0 - difference
    if x2 == 0 and (largest <= 0.0 or x1 / difference - (n1 - x1) / largest - n2 <= 0.0):
        return 0.0
    if x1 == n1 and (largest <= 0.0 or n1 + x2 / largest - (n2 - x2) / difference >= 0.0):
        return largest
    rate = min(max(_cubic_root(x1, n1, x2, n2, difference), 0.0), largest)
    return _newton_step(x1, n1, x2, n2, difference, rate)


def difference_statistic(x1: int, n1: int, x2: int, n2: int, difference: float, skewness: bool) -> float:
    """Return `score_statistic` without checking the input.

    >>> round(difference_statistic(5, 56, 0, 29, 0.0, False), 7)
    1.6488632
    """
    if difference < 0:
        return -difference_statistic(x2, n2, x1, n1, -difference, skewness)
    if difference < NEGLIGIBLE:
        difference = 0.0
    second = constrained_rate(x1, n1, x2, n2, difference)
    first = min(second + difference, 1.0)
    spread1, spread2 = first * (1 - first) / n1, second * (1 - second) / n2
    variance = (spread1 + spread2) * (n1 + n2) / (n1 + n2 - 1)
    distance = x1 / n1 - x2 / n2 - difference
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    z = distance / math.sqrt(variance)
    third = spread1 * (1 - 2 * first) / n1 - spread2 * (1 - 2 * second) / n2
    return without_skewness(z, third / (6 * variance * math.sqrt(variance))) if skewness else z


def difference_statistics(x1: Array, n1: Array | int, x2: Array, n2: Array | int, difference: Array | float) -> Array:
    """Return `score_statistic` of many outcomes or pairs of arms, corrected for skewness. Checks nothing.

    >>> difference_statistics(np.array([5.0, 7.0]), 56, np.array([0.0, 7.0]), 29, 0.0).round(7)
    array([ 1.7392131, -1.3459178])
    """
    is_negative = np.less(difference, 0)
    x, n = np.where(is_negative, x2, x1), np.where(is_negative, n2, n1)
    y, m = np.where(is_negative, x1, x2), np.where(is_negative, n1, n2)
    delta = np.abs(difference)
    second = _constrained_rates(x, n, y, m, delta)
    first = np.minimum(second + delta, 1.0)
    spread1, spread2 = first * (1 - first) / n, second * (1 - second) / m
    variance = (spread1 + spread2) * (n + m) / (n + m - 1)
    third = spread1 * (1 - 2 * first) / n - spread2 * (1 - 2 * second) / m
    return np.where(is_negative, -1.0, 1.0) * standardise(x / n - y / m - delta, variance, third)


def standardise(distance: Array, variance: Array, third: Array) -> Array:
    """Return distances in standard errors, without their skewness (Cornish & Fisher; Laud 2017).

    >>> standardise(np.array([1.0]), np.array([0.25]), np.array([0.0]))
    array([2.])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        z = distance / np.sqrt(variance)
        skew = third / (6 * variance * np.sqrt(variance))
        root = 1 + 4 * skew * (z + skew)
        linear = z + skew - 1 / (4 * skew)
        corrected = np.where(root < 0, linear, 2 * (z + skew) / (1 + np.sqrt(np.maximum(root, 0.0))))
    without_variance = np.where(distance == 0, 0.0, np.copysign(math.inf, distance))
    return np.where(variance > 0, corrected, without_variance)


def _constrained_rates(x1: Array, n1: Array, x2: Array, n2: Array, difference: Array) -> Array:
    """Return `constrained_rate` of many outcomes or pairs, to about eight digits."""
    n, successes = n1 + n2, x1 + x2
    b = ((n1 + 2 * n2) * difference - n - successes) / (3 * n)
    c = ((n2 * difference - n - 2 * x2) * difference + successes) / n
    half = b * b * b - b * c / 2 + x2 * difference * (1 - difference) / n / 2
    radius = np.copysign(np.sqrt(np.maximum(b * b - c / 3, 0.0)), half)
    cube = radius * radius * radius
    cosine = np.divide(half, cube, out=np.zeros_like(half), where=cube != 0)
    root = 2 * radius * np.cos((math.pi + np.arccos(np.clip(cosine, -1.0, 1.0))) / 3) - b
    return np.where(difference < NEGLIGIBLE, successes / n, np.clip(root, 0.0, 1.0 - difference))


def without_skewness(z: float, skew: float) -> float:
    """Return w with w + skew * (w^2 - 1) = z (Cornish & Fisher); linear beyond the parabola's turning point.

    `skew` is a sixth of the standardised third moment of z.

    >>> round(without_skewness(2.0 + 0.1 * 3.0, 0.1), 6)
    2.0
    """
    root = 1 + 4 * skew * (z + skew)
    if root < 0:
        return z + skew - 1 / (4 * skew)
    return 2 * (z + skew) / (1 + math.sqrt(root))


def _upper_end(x1: int, n1: int, x2: int, n2: int, z: float, skewness: bool) -> float:
    """Return the difference at which the falling statistic passes -z, by bisection down to neighbouring floats."""
    # The statistic at 0 gives the p-value. Evaluating it first keeps interval and p-value in agreement even at low levels,
    # where the corrected statistic of a handful of successes need not fall everywhere.
    estimate = x1 / n1 - x2 / n2
    excludes_0 = difference_statistic(x1, n1, x2, n2, 0.0, skewness) < -z
    low, high = (estimate if estimate < 0 else -1.0, 0.0) if excludes_0 else (max(estimate, 0.0), 1.0)
    while low < (middle := (low + high) / 2) < high:
        if difference_statistic(x1, n1, x2, n2, middle, skewness) > -z:
            low = middle
        else:
            high = middle
    return high


def _cubic_root(x1: int, n1: int, x2: int, n2: int, difference: float) -> float:
    """Return the cubic's root: Miettinen & Nurminen 1985, appendix 1, with the arms exchanged."""
    n, successes = n1 + n2, x1 + x2
    b = ((n1 + 2 * n2) * difference - n - successes) / (3 * n)
    c = ((n2 * difference - n - 2 * x2) * difference + successes) / n
    d = x2 * difference * (1 - difference) / n
    half = b * b * b - b * c / 2 + d / 2
    radius = math.copysign(math.sqrt(max(b * b - c / 3, 0.0)), half)
    cosine = half / (radius * radius * radius) if radius else 0.0
    return 2 * radius * math.cos((math.pi + math.acos(min(max(cosine, -1.0), 1.0))) / 3) - b


def _newton_step(x1: int, n1: int, x2: int, n2: int, difference: float, rate: float) -> float:
    """Return the rate after one Newton step on the score equation, or the same rate if the step leaves (0, 1)."""
    first = rate + difference
    if not 0.0 < rate < first < 1.0:
        return rate
    gains, losses = (x1 / first, x2 / rate), ((n1 - x1) / (1 - first), (n2 - x2) / (1 - rate))
    slope = gains[0] + gains[1] - losses[0] - losses[1]
    bend = gains[0] / first + gains[1] / rate + losses[0] / (1 - first) + losses[1] / (1 - rate)
    stepped = rate + slope / bend
    return stepped if 0.0 < stepped < 1.0 - difference else rate


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
    check_arms(x1, n1, x2, n2)
    check_share(level, "level")
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
    check_arms(x1, n1, x2, n2)
    check_share(level, "level")
    return _effect("odds ratio", _odds_statistic, (x1, n1, x2, n2), (x1 * (n2 - x2), x2 * (n1 - x1)), level, skewness)


def _effect(
    name: str,
    statistic: Statistic,
    arms: tuple[int, int, int, int],
    ratio: tuple[int, int],
    level: float,
    skewness: bool,
) -> Effect:
    above, below = ratio
    z, swapped = normal_quantile(0.5 + level / 2), (*arms[2:], *arms[:2])
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
