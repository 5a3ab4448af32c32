"""Power, samples and smallest detectable correlation, by Fisher's z with its bias r / (2 (n - 1)).

An approximation: at no correlation the power is 0.049 for an alpha of 0.05 at n = 10 and 0.0497 at n = 50, but for an
alpha of 0.001 it is 0.0004 and 0.00085. Plan for a small alpha with a reserve.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, stdtrit

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.stats.observations import Alternative, check_share
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_power, rising_root, sample_size, toward
from pytest_crucible.stats.tails import tail_share

FEWEST = 4.0
"""Pairs below which Fisher's z has no variance."""


def power_correlation(
    n: float, correlation: float, *, alpha: float = 0.05, alternative: Alternative = "two-sided"
) -> float:
    """Chance that n pairs show this correlation to differ from 0; R: pwr::pwr.r.test(n, r).

    Raises NotEnoughData below four pairs.

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
    """Pairs that show this correlation to differ from 0; R: pwr::pwr.r.test(r=, power=)$n.

    >>> samples_for_correlation(0.3).ceiling
    85
    """
    check_power(power, alpha)
    _check_correlation(correlation)
    wanted = toward(correlation, alternative)
    if wanted <= 0:
        return NEVER
    return sample_size(lambda n: _power(n, wanted, alpha, alternative), power, fewest=FEWEST)


def detectable_correlation(
    n: float, *, alpha: float = 0.05, power: float = 0.8, alternative: Alternative = "two-sided"
) -> float:
    """Smallest correlation that n pairs tell from 0; negative for the alternative `less`.

    >>> round(detectable_correlation(85), 3)
    0.298
    """
    check_power(power, alpha)
    _check_pairs(n)
    most = math.nextafter(1.0, 0.0)
    found = rising_root(lambda value: _power(n, value, alpha, alternative) - power, 0.0, most=most)
    return -found if alternative == "less" else found


def _power(n: float, wanted: float, alpha: float, alternative: Alternative) -> float:
    t = -float(stdtrit(n - 2, tail_share(alpha, alternative)))
    critical, scale = math.atanh(t / math.hypot(t, math.sqrt(n - 2))), math.sqrt(n - 3)
    z = math.atanh(wanted) + wanted / (2 * (n - 1)) if abs(wanted) < 1 else math.copysign(math.inf, wanted)
    other = ndtr((-z - critical) * scale) if alternative == "two-sided" else 0.0
    return min(1.0, float(ndtr((z - critical) * scale) + other))


def _check_correlation(correlation: float) -> None:
    if not -1 <= correlation <= 1:
        raise ValueError(f"a correlation lies between -1 and 1, not {correlation!r}")


def _check_pairs(n: float) -> None:
    if not n >= FEWEST:
        raise NotEnoughData(f"{counted(n, 'pair')}: the power of a correlation needs at least {FEWEST:g}")
