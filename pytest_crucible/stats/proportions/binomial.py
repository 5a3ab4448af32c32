"""The exact binomial test: is the true proportion the one that was stated?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from scipy.special import betainc, betaln

from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.observations import Alternative, check_alternative, check_choice, check_counts, check_share
from pytest_crucible.stats.proportions.one import clopper_pearson_bound, clopper_pearson_interval

TwoSided = Literal["likelihood", "central"]
"""What counts as at least as extreme: outcomes that are no more likely, as in R, or twice the smaller tail."""

TIES = 1 + 1e-7
"""Outcomes whose probabilities differ by less than this factor are equally likely, as in R."""


def binomial_test(
    successes: int,
    n: int,
    rate: float = 0.5,
    *,
    alternative: Alternative = "two-sided",
    two_sided: TwoSided = "likelihood",
    level: float = 0.95,
) -> Significance:
    """Exact binomial test of "the true proportion is `rate`"; R: binom.test(successes, n, rate).

    The Clopper-Pearson interval inverts the one-sided tests and the central two-sided one, and comes along with those.
    The likelihood p-value, R's, may contradict it (Fay 2010, Biostatistics 11:373) and comes without an interval.

    >>> round(binomial_test(37, 50, 0.6).p_value, 6)
    0.044023
    """
    check_counts(n, successes=successes)
    check_share(level, "level")
    check_alternative(alternative)
    check_choice(two_sided, get_args(TwoSided), "two_sided")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"a proportion lies between 0 and 1, not {rate!r}")
    return Significance(
        method=_method("binomial exact", alternative, two_sided),
        statistic=float(successes),
        p_value=binomial_p_value(successes, n, rate, alternative, two_sided) if n else None,
        estimate=successes / n if n else None,
        interval=_interval(successes, n, level, alternative, two_sided),
        n=(n,),
        status="ok" if n else "insufficient_data",
        note="" if n else "0 values say nothing about a proportion",
    )


def binomial_p_value(
    successes: int, n: int, rate: float, alternative: Alternative, two_sided: TwoSided = "likelihood"
) -> float:
    """The p-value alone, for tests that reduce to a binomial one. Checks nothing.

    >>> binomial_p_value(0, 5, 0.5, "two-sided")
    0.0625
    """
    least, most = _at_least(successes, n, rate), _at_most(successes, n, rate)
    if alternative != "two-sided":
        return least if alternative == "greater" else most
    if two_sided == "central":
        return min(1.0, 2 * min(least, most))
    # Failures mirror successes, so only the case of too many successes needs writing down.
    if successes < n * rate:
        return _by_likelihood(n - successes, n, 1 - rate, most)
    return _by_likelihood(successes, n, rate, least)


def _by_likelihood(successes: int, n: int, rate: float, least: float) -> float:
    """The upper tail, and those low outcomes that are no more likely: below the mode probabilities only rise."""
    if successes == n * rate:
        return 1.0
    reached = _log_probability(successes, n, rate) + math.log(TIES)
    fewer = _count_leading(math.floor(n * rate) + 1, lambda k: _log_probability(k, n, rate) <= reached)
    return min(1.0, least + (_at_most(fewer - 1, n, rate) if fewer else 0.0))


def _count_leading(size: int, holds: Callable[[int], bool]) -> int:
    """How many of 0, 1, ..., size - 1 satisfy a condition that, once false, stays false."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if holds(middle) else (low, middle)
    return low


def _log_probability(k: int, n: int, rate: float) -> float:
    if rate in (0.0, 1.0):
        return 0.0 if k == n * rate else -math.inf
    return float(-betaln(k + 1, n - k + 1)) - math.log(n + 1) + k * math.log(rate) + (n - k) * math.log1p(-rate)


def _at_least(k: int, n: int, rate: float) -> float:
    return 1.0 if k == 0 else float(betainc(k, n - k + 1, rate))


def _at_most(k: int, n: int, rate: float) -> float:
    return 1.0 if k == n else float(betainc(n - k, k + 1, 1 - rate))


def _interval(successes: int, n: int, level: float, alternative: Alternative, two_sided: TwoSided) -> Interval | None:
    if alternative == "two-sided":
        return clopper_pearson_interval(successes, n, level=level) if two_sided == "central" else None
    low = clopper_pearson_bound(successes, n, alpha=1 - level, side="lower") if alternative == "greater" else 0.0
    high = clopper_pearson_bound(successes, n, alpha=1 - level, side="upper") if alternative == "less" else 1.0
    return Interval(low=low, high=high, level=level, method="clopper-pearson")


def _method(test: str, alternative: Alternative, two_sided: TwoSided) -> str:
    return f"{test}, two-sided by {two_sided}" if alternative == "two-sided" else f"{test}, {alternative}"
