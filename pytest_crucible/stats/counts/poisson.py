"""Rates of rare events, such as refusals per hour: exact intervals and an exact comparison.

Events are assumed to be Poisson, without bursts. `exposure` is time, or any other amount of opportunity.
"""

from __future__ import annotations

import math
from typing import get_args

from scipy.special import gammainccinv, gammaincinv

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Alternative, Side, check_choice, check_share, check_side
from pytest_crucible.stats.proportions.binomial import TwoSided, binomial_p_value, describe_contradiction
from pytest_crucible.stats.proportions.one import clopper_pearson_bound
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import tail_share


def poisson_rate_interval(events: int, exposure: float, *, level: float = 0.95) -> Interval:
    """Return the exact interval for events per unit of exposure. Garwood 1936; R: poisson.test(events, exposure).

    >>> interval = poisson_rate_interval(7, 250, level=0.9)
    >>> round(interval.low, 5), round(interval.high, 5)
    (0.01314, 0.05259)
    """
    check_share(level, "level")
    low = poisson_rate_bound(events, exposure, alpha=(1 - level) / 2, side="lower")
    high = poisson_rate_bound(events, exposure, alpha=(1 - level) / 2, side="upper")
    return Interval(low=low, high=high, level=level, method="garwood")


def poisson_rate_bound(events: int, exposure: float, *, alpha: float, side: Side) -> float:
    """Return the one-sided exact bound for a rate; without events -log(alpha) / exposure, the rule of three.

    >>> round(poisson_rate_bound(0, 100, alpha=0.05, side="upper"), 6)
    0.029957
    """
    _check(events, exposure)
    check_share(alpha, "alpha")
    check_side(side)
    if side == "lower":
        return float(gammaincinv(events, alpha)) / exposure if events else 0.0
    # Garwood 1936: Poisson tails are incomplete gamma functions.
    return float(gammainccinv(events + 1, alpha)) / exposure


def poisson_rate_ratio(
    events1: int,
    exposure1: float,
    events2: int,
    exposure2: float,
    *,
    alternative: Alternative = "two-sided",
    two_sided: TwoSided = "likelihood",
    level: float = 0.95,
) -> Significance:
    """Return the exact conditional test that two rates are equal.

    R: poisson.test(c(events1, events2), c(exposure1, exposure2)). Given the total, the events of the first arm are
    binomial (Przyborowski & Wilenski 1940). The interval is that of `poisson_ratio_interval`, also without events in an arm;
    R's likelihood p-value may contradict it, as in `binomial_test`. The estimate is infinite without events in the second
    arm, and None without any.

    >>> result = poisson_rate_ratio(14, 120, 6, 118)
    >>> round(result.estimate, 6), round(result.p_value, 6)
    (2.294444, 0.115574)
    >>> round(poisson_rate_ratio(0, 10, 5, 12).interval.high, 4)
    1.3095
    """
    check_choice(two_sided, get_args(TwoSided), "two_sided")
    interval = poisson_ratio_interval(events1, exposure1, events2, exposure2, alternative=alternative, level=level)
    events, share = events1 + events2, exposure1 / (exposure1 + exposure2)
    sides = f"two-sided by {two_sided}" if alternative == "two-sided" else alternative
    p_value = binomial_p_value(events1, events, share, alternative, two_sided)
    return Significance(
        method=f"poisson exact, {sides}",
        statistic=float(events1),
        p_value=p_value,
        estimate=_ratio(events1 * exposure2, events2 * exposure1),
        interval=interval,
        n=(events1, events2),
        status="ok" if events else "degenerate",
        note=describe_contradiction(p_value, interval, null=1.0)
        if events
        else "0 events in both arms say nothing about the ratio of their rates",
    )


def poisson_ratio_interval(
    events1: int,
    exposure1: float,
    events2: int,
    exposure2: float,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Interval:
    """Return the exact interval for the ratio of two rates: Clopper-Pearson for the first arm's share, as odds.

    R: poisson.test(c(events1, events2), c(exposure1, exposure2))$conf.int.

    >>> interval = poisson_ratio_interval(14, 120, 6, 118)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.8283, 7.2847)
    """
    _check(events1, exposure1)
    _check(events2, exposure2)
    check_share(level, "level")
    alpha = tail_share(1 - level, alternative)
    # The upper end is the lower end of the exchanged arms, inverted.
    low = _lowest(events1, events2, alpha) * exposure2 / exposure1 if alternative != "less" else 0.0
    inverse = _lowest(events2, events1, alpha) * exposure1 / exposure2 if alternative != "greater" else 0.0
    return Interval(low=low, high=1 / inverse if inverse else math.inf, level=level, method="clopper-pearson")


def _lowest(events1: int, events2: int, alpha: float) -> float:
    share = clopper_pearson_bound(events1, events1 + events2, alpha=alpha, side="lower")
    return share / (1 - share)


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else math.inf if above else None


def _check(events: int, exposure: float) -> None:
    if events < 0 or not (0 < exposure < math.inf):
        raise ValueError(f"expected at least 0 events and a finite exposure above 0, not {events!r} and {exposure!r}")
