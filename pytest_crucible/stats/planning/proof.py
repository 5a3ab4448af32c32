"""Sample sizes that would prove a target, assuming that the observed rate or mean is the true one."""

from __future__ import annotations

import math

import scipy

from pytest_crucible.stats.arrays import Side, check_share, check_side
from pytest_crucible.stats.planning.roots import round_up, smallest_integer
from pytest_crucible.stats.proportions.one import beta_bound


def samples_to_prove_proportion(rate: float, target: float, *, alpha: float = 0.05, side: Side = "lower") -> int | None:
    """Return about how many samples the Clopper-Pearson bound needs to clear the target at this rate.

    `lower` proves "at least target", `upper` "at most". None when the rate is not beyond the target on that side. The
    number is approximate because a rate between two counts is used as it is.

    >>> samples_to_prove_proportion(1.0, 0.95)
    59
    """
    check_share(alpha, "alpha")
    check_side(side)
    if not (0 <= rate <= 1 and 0 <= target <= 1):
        raise ValueError(f"a rate and its target lie between 0 and 1, not {rate!r} and {target!r}")
    if (rate <= target) if side == "lower" else (rate >= target):
        return None
    sign = 1 if side == "lower" else -1
    # `beta_bound` accepts fractional counts, so the bound moves smoothly with n and the search by halving is safe.
    return smallest_integer(lambda n: sign * (beta_bound(rate * n, n, alpha=alpha, side=side) - target) >= 0, 1)


def samples_to_prove_mean(mean: float, deviation: float, target: float, *, alpha: float = 0.05) -> int | None:
    """Return about how many samples the one-sided t bound needs to clear the target at this mean.

    The bound is on whichever side of the target the mean lies. None when the mean equals the target, and when the
    deviation is 0.

    >>> samples_to_prove_mean(0.82, 0.2, 0.8)
    273
    """
    check_share(alpha, "alpha")
    if not deviation >= 0:
        raise ValueError(f"a standard deviation is at least 0, not {deviation!r}")
    distance = abs(mean - target)
    if distance == 0 or deviation == 0:
        return None
    return smallest_integer(
        lambda n: -float(scipy.special.stdtrit(n - 1, alpha)) * deviation / math.sqrt(n) <= distance, 2
    )


def samples_for_zero(limit: float, *, alpha: float = 0.05) -> int:
    """Return how many samples without a failure prove a failure rate of at most `limit`.

    The exact form of the rule of three: (1 - limit)^n <= alpha (Hanley & Lippman-Hand 1983).

    >>> [samples_for_zero(limit) for limit in (0.05, 0.02, 0.01)]
    [59, 149, 299]
    """
    check_share(alpha, "alpha")
    check_share(limit, "limit")
    return round_up(math.log(alpha) / math.log1p(-limit))
