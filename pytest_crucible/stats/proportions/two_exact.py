"""The difference of two proportions from independent samples, with error rates that hold at every n.

x1 of n1 against x2 of n2. The test is that of the score statistic, exact and unconditional (Suissa & Shuster 1985, JRSS A
148:317); the bounds are Buehler's, for outcomes in the order of the score limits. Both use the correction for skewness
(Laud 2017), which keeps their power where one arm is much larger. The second arm's successes are the outer count of
`unconditional`, and its rate is the nuisance. The asymptotic score test errs in up to 7 % at a nominal 5 % (4 against 4).
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
from pytest_crucible.stats.proportions.score import difference_statistics, score_interval, score_statistic
from pytest_crucible.stats.proportions.two import describe_degenerate
from pytest_crucible.stats.proportions.unconditional import (
    TIED,
    Region,
    agree,
    least_counts,
    lower_bound,
    outer_counts,
)
from pytest_crucible.stats.results import Significance

METHOD = "exact unconditional"


def two_exact_p_value(x1: int, n1: int, x2: int, n2: int, *, alternative: Alternative = "two-sided") -> float | None:
    """Return the p-value of "the true rates are equal". None for an empty arm.

    It rejects equal rates in at most a share alpha of experiments, for every alpha and all sizes. A two-sided p-value is
    twice the smaller of the one-sided ones, which are at least 1e-10.

    >>> round(two_exact_p_value(7, 10, 2, 12), 4)
    0.0187
    """
    _check(x1, n1, x2, n2)
    check_alternative(alternative)
    if not (n1 and n2):
        return None
    if alternative == "greater":
        return _p_of_no_more(x1, n1, x2, n2)
    if alternative == "less":
        return _p_of_no_more(x2, n2, x1, n1)
    return min(1.0, 2 * min(_p_of_no_more(x1, n1, x2, n2), _p_of_no_more(x2, n2, x1, n1)))


def two_exact_bound(x1: int, n1: int, x2: int, n2: int, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound of the first rate minus the second. It errs in at most a share alpha, which is below 0.5.

    -1 or 1 for an empty arm.

    >>> round(two_exact_bound(50, 50, 50, 50, alpha=0.05, side="lower"), 4)
    -0.0582
    """
    _check(x1, n1, x2, n2)
    check_share(alpha, "alpha")
    check_side(side)
    # Swapped arms give the negative bound to the last bit.
    return _lower(x1, n1, x2, n2, alpha) if side == "lower" else -_lower(x2, n2, x1, n1, alpha)


def two_exact_test(
    x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Significance:
    """Return the difference with its exact interval and p-value, which agree: p < 1 - level exactly where it excludes 0.

    An end that a one-sided alternative does not test is infinite.

    >>> print(two_exact_test(7, 10, 2, 12))
    0.533 [0.083, 0.828], statistic 2.5, p = 0.019, n=10 + 12 (exact unconditional)
    """
    check_share(level, "level")
    alpha = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    p_value = two_exact_p_value(x1, n1, x2, n2, alternative=alternative)
    low = -math.inf if alternative == "less" else two_exact_bound(x1, n1, x2, n2, alpha=alpha, side="lower")
    high = math.inf if alternative == "greater" else two_exact_bound(x1, n1, x2, n2, alpha=alpha, side="upper")
    if p_value is not None:
        p_value, low, high = agree(p_value, low, high, level)
    # All successes or all failures: the statistic is 0 / 0, the interval still exists.
    constant = x1 + x2 in (0, n1 + n2)
    return Significance(
        method=METHOD,
        statistic=None if constant or p_value is None else score_statistic(x1, n1, x2, n2),
        p_value=p_value,
        estimate=None if p_value is None else x1 / n1 - x2 / n2,
        interval=Interval(low=low, high=high, level=level, method=METHOD),
        n=(n1, n2),
        status="insufficient_data" if p_value is None else "degenerate" if constant else "ok",
        note=describe_degenerate(x1, n1, x2, n2),
    )


@lru_cache(maxsize=4096)
def _p_of_no_more(x1: int, n1: int, x2: int, n2: int) -> float:
    """Return the p-value of "the first rate is not larger"."""
    z = float(difference_statistics(np.array([float(x1)]), n1, np.array([float(x2)]), n2, 0.0)[0])
    return _region(x1, n1, x2, n2, 0.0, z).p_value(0.0)


@lru_cache(maxsize=4096)
def _lower(x1: int, n1: int, x2: int, n2: int, alpha: float) -> float:
    from scipy.special import ndtri

    if not (n1 and n2) or (x1 == 0 and x2 == n2):
        return -1.0
    limit = score_interval(x1, n1, x2, n2, level=1 - 2 * alpha).low
    region = _region(x1, n1, x2, n2, limit, -float(ndtri(alpha)))
    return lower_bound(region, x1 / n1 - x2 / n2, limit, alpha)


def _region(x1: int, n1: int, x2: int, n2: int, difference: float, z: float) -> Region:
    """Return the outcomes whose statistic at this difference is z or more."""
    seconds = outer_counts(x2, n2)
    sizes = np.full(seconds.shape, float(n1))
    least = least_counts(sizes, lambda first: difference_statistics(first, n1, seconds, n2, difference) >= z - TIED)
    return Region(
        n=n2, observed=x2, counts=seconds, sizes=sizes, least=least, range_of=_second_rates, rates_of=_first_rates
    )


def _second_rates(difference: float) -> Range:
    return max(0.0, -difference), min(1.0, 1.0 - difference)


def _first_rates(difference: float, rates: Array) -> Array:
    return np.clip(rates + difference, 0.0, 1.0)


def _check(x1: int, n1: int, x2: int, n2: int) -> None:
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)
