"""The difference of two proportions that were measured on the same samples, with error rates that hold at every n.

`gained` and `lost` are as in `paired`. The test is McNemar's, exact and unconditional (Suissa & Shuster 1991, Biometrics
47:361; recommended by Fagerland, Lydersen & Laake 2013); the bounds are Buehler's, for outcomes in the order of Tango's
limits (Lloyd & Moldovan 2007, SiM 26:3369). The number of discordant pairs is the outer count of `unconditional`, and the
gained ones are binomial given it. Tango's own test rejects equal arms in up to 12.5 % at a nominal 5 % (4 pairs), and in
6.5 % still with 50; this one in at most 5 %, with nearly the same power.

From `MANY` gained and as many lost pairs on, Tango's limits are moved away from the estimate by `SHIFT` / sqrt of the
smaller count in standard errors. They are then wider than the exact ones down to an alpha of 0.0005 (`tests/truth`).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Range,
    Side,
    check_alternative,
    check_counts,
    check_share,
    check_side,
)
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.proportions.paired import tango_lower, tango_statistic, tango_statistics
from pytest_crucible.stats.proportions.unconditional import TIED, Region, agree, least_counts, lower_bound, outer_counts
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import normal_p_value

METHOD = "exact unconditional"
# Gained and lost pairs each: from here on the normal formula replaces enumeration, which takes too long.
MANY = 2000
SHIFT = 2.0


def paired_exact_p_value(gained: int, lost: int, n: int, *, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of "the true difference is 0": McNemar's test, exact and unconditional.

    It rejects equal arms in at most a share alpha of experiments, for every alpha and n. It is at least 1e-10, two-sided 2e-10.

    >>> round(paired_exact_p_value(9, 2, 60), 4), paired_exact_p_value(0, 4, 4) > 0.12
    (0.0403, True)
    """
    check_counts(n, gained=gained, lost=lost)
    check_alternative(alternative)
    if alternative == "less":
        return paired_exact_p_value(lost, gained, n, alternative="greater")
    if alternative == "greater":
        return _p_of_no_gain(gained, lost, n)
    # Both tails are equally probable when the arms do not differ.
    return min(1.0, 2 * _p_of_no_gain(max(gained, lost), min(gained, lost), n)) if gained != lost else 1.0


def paired_exact_bound(gained: int, lost: int, n: int, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound of rate(candidate) - rate(baseline). It errs in at most a share alpha, which is below 0.5.

    >>> round(paired_exact_bound(0, 0, 59, alpha=0.05, side="lower"), 4)
    -0.0495
    """
    check_counts(n, gained=gained, lost=lost)
    check_share(alpha, "alpha")
    check_side(side)
    if side == "lower":
        return _lower(gained, lost, n, alpha)
    # Swapped arms give the negative bound to the last bit.
    return -_lower(lost, gained, n, alpha)


def paired_exact_test(
    gained: int, lost: int, n: int, *, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Significance:
    """Return the difference with its exact interval and p-value, which agree: p < 1 - level exactly where it excludes 0.

    An end that a one-sided alternative does not test is infinite. [-1, 1] without pairs.

    >>> print(paired_exact_test(9, 2, 60))
    0.117 [0.008, 0.238], statistic 2.1, p = 0.040, n=60 (exact unconditional)
    """
    check_share(level, "level")
    alpha = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    p_value = paired_exact_p_value(gained, lost, n, alternative=alternative)
    low = -math.inf if alternative == "less" else paired_exact_bound(gained, lost, n, alpha=alpha, side="lower")
    high = math.inf if alternative == "greater" else paired_exact_bound(gained, lost, n, alpha=alpha, side="upper")
    p_value, low, high = agree(p_value, low, high, level)
    return Significance(
        method=METHOD,
        statistic=tango_statistic(gained, lost, n, 0.0),
        p_value=p_value,
        estimate=(gained - lost) / n if n else None,
        interval=Interval(low=low, high=high, level=level, method=METHOD),
        n=(n,),
        status="ok" if gained + lost else "degenerate",
        note="" if gained + lost else "no pair is discordant",
    )


@lru_cache(maxsize=4096)
def _p_of_no_gain(gained: int, lost: int, n: int) -> float:
    """Return the p-value of "the candidate is not better"."""
    if not gained + lost:
        return 1.0
    z = tango_statistic(gained, lost, n, 0.0)
    if min(gained, lost) >= MANY:
        return normal_p_value(z - _shift(gained, lost), "greater")
    discordant = outer_counts(gained + lost, n)
    # McNemar's z of g gained among m discordant pairs, (2 g - m) / sqrt(m), solved for g; without any it is 0.
    least = np.where(discordant > 0, np.ceil((discordant + (z - TIED) * np.sqrt(discordant)) / 2), float(z > 0))
    return _region(gained, lost, n, discordant, least).p_value(0.0)


@lru_cache(maxsize=4096)
def _lower(gained: int, lost: int, n: int, alpha: float) -> float:
    from scipy.special import ndtri

    # Without pairs nothing is known, and the bound is -1 as well.
    if lost == n:
        return -1.0
    z = -float(ndtri(alpha))
    if min(gained, lost) >= MANY:
        return tango_lower(gained, lost, n, z + _shift(gained, lost))
    limit = tango_lower(gained, lost, n, z)
    discordant = outer_counts(gained + lost, n)
    least = least_counts(discordant, lambda inner: tango_statistics(inner, discordant - inner, n, limit) >= z - TIED)
    region = _region(gained, lost, n, discordant, least)
    return lower_bound(region, (gained - lost) / n, limit, alpha)


def _shift(gained: int, lost: int) -> float:
    return SHIFT / math.sqrt(min(gained, lost))


def _region(gained: int, lost: int, n: int, discordant: Array, least: Array) -> Region:
    return Region(
        n=n,
        observed=gained + lost,
        counts=discordant,
        sizes=discordant,
        least=least,
        range_of=_discordance_range,
        rates_of=_gained_rates,
    )


def _discordance_range(difference: float) -> Range:
    """At least as many pairs are discordant as the rates differ."""
    return abs(difference), 1.0


def _gained_rates(difference: float, discordance: Array) -> Array:
    """Return the share of gained pairs among the discordant ones; any if there are none."""
    return np.clip((1 + difference / np.maximum(discordance, np.finfo(np.float64).tiny)) / 2, 0.0, 1.0)
