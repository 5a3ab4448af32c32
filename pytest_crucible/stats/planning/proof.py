"""How many samples it would take to prove a target, if the rate or mean seen so far is the true one."""

from __future__ import annotations

import math

from scipy.special import stdtrit

from pytest_crucible.stats.observations import Side, check_share, check_side
from pytest_crucible.stats.planning.roots import first_whole, whole
from pytest_crucible.stats.proportions.one import beta_bound


def samples_to_prove_proportion(rate: float, target: float, *, alpha: float = 0.05, side: Side = "lower") -> int | None:
    """About how many samples until the Clopper-Pearson bound at this rate clears the target.

    `lower` proves "at least target", `upper` "at most". None when the rate is not beyond the target on that side.
    About, because a rate between two counts is used as it is.

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
    return first_whole(lambda n: sign * (beta_bound(rate * n, n, alpha=alpha, side=side) - target) >= 0, 1)


def samples_to_prove_mean(mean: float, deviation: float, target: float, *, alpha: float = 0.05) -> int | None:
    """About how many samples until the one-sided t bound at this mean and standard deviation clears the target.

    On whichever side of the target the mean lies. None when it lies on the target, or when a deviation of 0 leaves no
    way to say.

    >>> samples_to_prove_mean(0.82, 0.2, 0.8)
    273
    """
    check_share(alpha, "alpha")
    if not deviation >= 0:
        raise ValueError(f"wanted a deviation of at least 0, not {deviation!r}")
    distance = abs(mean - target)
    if distance == 0 or deviation == 0:
        return None
    return first_whole(lambda n: -float(stdtrit(n - 1, alpha)) * deviation / math.sqrt(n) <= distance, 2)


def samples_for_zero(limit: float, *, alpha: float = 0.05) -> int:
    """Samples without a single failure that prove a failure rate of at most `limit` (the rule of three).

    >>> [samples_for_zero(limit) for limit in (0.05, 0.02, 0.01)]
    [59, 149, 299]
    """
    check_share(alpha, "alpha")
    check_share(limit, "limit")
    return whole(math.log(alpha) / math.log1p(-limit))
