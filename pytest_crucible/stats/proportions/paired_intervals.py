"""Other intervals for the difference of paired proportions; `tango_interval` is the one to show and to decide by.

The fourfold table of pairs is both right, `gained` (candidate only), `lost` (baseline only), neither right.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import check_counts, check_share
from pytest_crucible.stats.proportions.one import wilson_interval


def paired_newcombe_interval(
    both: int, gained: int, lost: int, neither: int, *, level: float = 0.95, correction: bool = True
) -> Interval:
    """Return Newcombe's square-and-add interval from both arms' Wilson intervals and their correlation phi.

    Newcombe 1998 (SiM 17:2635), method 10; `correction` is the paper's continuity correction of phi. [-1, 1] when
    there are no pairs.

    >>> interval = paired_newcombe_interval(36, 12, 2, 0)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0569, 0.3404)
    """
    n = both + gained + lost + neither
    check_counts(n, both=both, gained=gained, lost=lost, neither=neither)
    check_share(level, "level")
    method = "newcombe" if correction else "newcombe, plain phi"
    if n == 0:
        return Interval(low=-1.0, high=1.0, level=level, method=method)
    rate1, rate2 = (both + gained) / n, (both + lost) / n
    first, second = wilson_interval(both + gained, n, level=level), wilson_interval(both + lost, n, level=level)
    phi = _phi(both, gained, lost, neither, correction)
    below = _third_side(rate1 - first.low, second.high - rate2, phi)
    above = _third_side(first.high - rate1, rate2 - second.low, phi)
    difference = (gained - lost) / n
    return Interval(low=difference - below, high=difference + above, level=level, method=method)


def bonett_price_interval(gained: int, lost: int, n: int, *, level: float = 0.95, clip: bool = True) -> Interval:
    """Return the Bonett-Price interval: Wald after adding one gained and one lost pair (two pairs in all).

    Bonett & Price 2012 (JEBS 37:479). [-1, 1] without pairs. As a one-sided bound it errs in up to 9 % at a nominal 5 %.

    >>> interval = bonett_price_interval(12, 2, 50)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0509, 0.3337)
    """
    _check(gained, lost, n, level)
    return _wald(gained + 1, lost + 1, n + 2 if n else 0, level, "bonett-price", clip)


def agresti_min_interval(gained: int, lost: int, n: int, *, level: float = 0.95, clip: bool = True) -> Interval:
    """Return the Agresti-Min interval: Wald after adding half a pair to each of the four cells. [-1, 1] without pairs.

    Agresti & Min 2005 (SiM 24:729).

    >>> interval = agresti_min_interval(12, 2, 50)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.056, 0.3286)
    """
    _check(gained, lost, n, level)
    return _wald(gained + 0.5, lost + 0.5, n + 2 if n else 0, level, "agresti-min", clip)


def paired_wald_interval(gained: int, lost: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the textbook interval for paired proportions, for comparison only. [-1, 1] without pairs.

    Its exact coverage falls to .57 for 10 pairs, and without discordant pairs its width is 0.

    >>> interval = paired_wald_interval(12, 2, 50)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0642, 0.3358)
    """
    _check(gained, lost, n, level)
    return _wald(gained, lost, n, level, "wald", True)


def _check(gained: int, lost: int, n: int, level: float) -> None:
    check_counts(n, gained=gained, lost=lost)
    check_share(level, "level")


def _wald(gained: float, lost: float, n: float, level: float, method: str, clip: bool) -> Interval:
    if n == 0:
        return Interval(low=-1.0, high=1.0, level=level, method=method)
    difference = (gained - lost) / n
    half = float(ndtri(0.5 + level / 2)) * math.sqrt(max(gained + lost - (gained - lost) * difference, 0.0)) / n
    low, high = difference - half, difference + half
    if clip:
        low, high = max(low, -1.0), min(high, 1.0)
    return Interval(low=low, high=high, level=level, method=method)


def _phi(both: int, gained: int, lost: int, neither: int, correction: bool) -> float:
    """Return the correlation of the arms; the correction moves a positive one towards 0 by half a pair."""
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if not margins:
        return 0.0
    product: float = both * neither - gained * lost
    # Newcombe's correction applies to a positive correlation only.
    if correction and product > 0:
        product = max(product - (both + gained + lost + neither) / 2, 0.0)
    return product / math.sqrt(margins)


def _third_side(side: float, other: float, cosine: float) -> float:
    return math.sqrt(max(side * side - 2 * cosine * side * other + other * other, 0.0))
