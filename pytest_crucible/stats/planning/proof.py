"""Sample sizes that prove a target with a given power, if the rate or mean is the true one."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import bdtrc, bdtrik

from pytest_crucible.stats.arrays import Array, Side, check_share, check_side
from pytest_crucible.stats.planning.paired_proportions import STEADY
from pytest_crucible.stats.planning.roots import round_up, smallest_integer

# Up to this size, each n is computed. Beyond it the sawtooth of the power is too small to matter.
LONGEST_SCAN = 2000


def samples_to_prove_proportion(
    rate: float, target: float, *, alpha: float = 0.05, power: float = 0.8, side: Side = "lower"
) -> int | None:
    """Return how many samples prove a target by the Clopper-Pearson bound with this power, if `rate` is the true rate.

    `lower` proves "at least target", `upper` "at most". None when the rate is not beyond the target on that side. Exact:
    binomial tails. Counts are whole, so power is a sawtooth in n; the answer is the first size that has the power, and
    with the nine sizes after it on average.

    >>> samples_to_prove_proportion(0.97, 0.95), samples_to_prove_proportion(1.0, 0.95)
    (624, 59)
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    check_side(side)
    if not (0 <= rate <= 1 and 0 <= target <= 1):
        raise ValueError(f"a rate and its target must lie between 0 and 1, not {rate!r} and {target!r}")
    # "At most" is "at least" of the opposite outcome.
    rate, target = (rate, target) if side == "lower" else (1 - rate, 1 - target)
    if rate <= target:
        return None
    enough = smallest_integer(lambda n: bool((_powers(n, n + STEADY, rate, target, alpha) >= power).all()), 1)
    if enough is None:
        return None
    # Bisection of a sawtooth ends at any of its teeth, where the power may be far above the requested one.
    first = max(1, enough - min(enough // 5, LONGEST_SCAN))
    powers = _powers(first, enough + STEADY, rate, target, alpha)
    holds = (powers[: 1 - STEADY] >= power) & (sliding_window_view(powers, STEADY).mean(axis=1) >= power)
    return first + int(holds.argmax())


def _powers(first: int, end: int, rate: float, target: float, alpha: float) -> Array:
    """Return the chance that the lower bound reaches the target, for each size from `first` to before `end`."""
    # Whole numbers: scipy's binomial tails warn of others.
    sizes = np.arange(first, end, dtype=np.int64)
    if target == 0:
        # The bound is above 0 from the first success on.
        return np.asarray(-np.expm1(sizes * np.log1p(-rate))) if rate < 1 else np.ones(sizes.size)
    # The fewest successes that prove: P(X >= k | target) <= alpha. `bdtrik` is their number up to rounding.
    fewest = np.ceil(bdtrik(1 - alpha, sizes, target)) + 1
    fewest = np.clip(np.where(bdtrc(fewest - 2, sizes, target) <= alpha, fewest - 1, fewest), 1, sizes + 1)
    return np.where(fewest > sizes, 0.0, bdtrc(np.minimum(fewest, sizes) - 1, sizes, rate))


def samples_for_zero(limit: float, *, alpha: float = 0.05) -> int:
    """Return how many samples without a failure prove a failure rate of at most `limit`.

    The exact form of the rule of three: (1 - limit)^n <= alpha (Hanley & Lippman-Hand 1983).

    >>> [samples_for_zero(limit) for limit in (0.05, 0.02, 0.01)]
    [59, 149, 299]
    """
    check_share(alpha, "alpha")
    check_share(limit, "limit")
    return round_up(math.log(alpha) / math.log1p(-limit))
