"""Power, sample size and smallest detectable correlation, by Fisher's z with its bias r / (2 (n - 1)).

The approximation is good near alpha = 0.05: with no correlation the power is 0.049 at n = 10 and 0.0497 at n = 50. For
alpha = 0.001 it is 0.0004 and 0.00085, so plan for a small alpha with a reserve.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, stdtrit

from pytest_crucible.stats.arrays import Alternative, check_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_power, rising_root, sample_size, toward
from pytest_crucible.stats.tails import tail_share

# Fisher's z has variance 1 / (n - 3), which is undefined below four pairs.
FEWEST = 4.0


def power_correlation(
    n: float, correlation: float, *, alpha: float = 0.05, alternative: Alternative = "two-sided"
) -> float:
    """Return the power to detect a correlation with n pairs.

    R: pwr::pwr.r.test(n, r). Raises NotEnoughData below four pairs.

    >>> round(power_correlation(80, 0.3), 7)
    0.7796541
    """
    check_share(alpha, "alpha")
    _check_correlation(correlation)
    _check_pairs(n)
    return _power(n, toward(correlation, alternative), alpha, alternative)


def samples_for_correlation(
    correlation: float, *, alpha: float = 0.05, power: float = 0.8, alternative: Alternative = "two-sided"
) -> SampleSize:
    """Return the number of pairs needed to detect a correlation.

    R: pwr::pwr.r.test(r=, power=)$n.

    >>> samples_for_correlation(0.3).ceiling
    85
    """
    check_power(power, alpha)
    _check_correlation(correlation)
    effect = toward(correlation, alternative)
    if effect <= 0:
        return NEVER
    return sample_size(lambda n: _power(n, effect, alpha, alternative), power, fewest=FEWEST)


def detectable_correlation(
    n: float, *, alpha: float = 0.05, power: float = 0.8, alternative: Alternative = "two-sided"
) -> float:
    """Return the smallest correlation that n pairs detect; negative for the alternative `less`.

    >>> round(detectable_correlation(85), 3)
    0.298
    """
    check_power(power, alpha)
    _check_pairs(n)
    # atanh(1) is infinite: the search ends at the largest float below 1.
    largest = math.nextafter(1.0, 0.0)
    effect = rising_root(lambda value: _power(n, value, alpha, alternative) - power, 0.0, most=largest)
    return -effect if alternative == "less" else effect


def _power(n: float, effect: float, alpha: float, alternative: Alternative) -> float:
    # The critical t on n - 2 degrees of freedom, turned into a critical correlation and then into Fisher's z (as pwr
    # does).
    t = -float(stdtrit(n - 2, tail_share(alpha, alternative)))
    critical, scale = math.atanh(t / math.hypot(t, math.sqrt(n - 2))), math.sqrt(n - 3)
    # r / (2 (n - 1)) is the first-order bias of Fisher's z (Fisher 1921).
    z = math.atanh(effect) + effect / (2 * (n - 1)) if abs(effect) < 1 else math.copysign(math.inf, effect)
    opposite = ndtr((-z - critical) * scale) if alternative == "two-sided" else 0.0
    return min(1.0, float(ndtr((z - critical) * scale) + opposite))


def _check_correlation(correlation: float) -> None:
    if not -1 <= correlation <= 1:
        raise ValueError(f"a correlation must lie between -1 and 1, not {correlation!r}")


def _check_pairs(n: float) -> None:
    if not n >= FEWEST:
        raise NotEnoughData(f"{quantity(n, 'pair')}: the power of a correlation needs at least {FEWEST:g}")
