"""The wealth of a bettor against a mean: bets are fair, so large wealth is evidence that the mean is larger.

Values lie in [0, 1]. Against the mean m the stake before value i is min(b_i, c / m), and the wealth is the product of 1
+ stake * (x_i - m). It cannot rise with m, so the means not yet refuted form an interval exactly. Waudby-Smith & Ramdas
2024 (JRSS B 86:1), section 4.

A value may be the mean of a group. The mean over all members is m where E[s_i (x_i - m)] = 0 for groups of s_i members, so a
group's gain is multiplied by its weight, s_i over the largest size that there can be: the loss of a value stays below the stake.
A stake depends on earlier groups alone, and not on the size of the group that comes, which may go with its mean.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.sequential.confidence_sequence import running_mean

# Share of the wealth that may be lost on one value; the paper suggests 1/2 or 3/4.
LARGEST_BET = 0.5


def stakes(unit: Array, tail: float, *, weights: Array | None = None) -> Array:
    """Return the stake before each value: sqrt(2 log(1 / tail) / (i log(1 + i) * variance)).

    Each stake depends on the earlier values only. The variance starts at 1/4 and the mean at 1/2, each counted as one
    observation. Equation 26 of the paper. With `weights` it is the variance of weighted distances, each in units of the
    average weight so far.
    """
    count = np.arange(1, unit.size + 1)
    typical = np.ones(unit.size) if weights is None else running_mean(weights)
    relative = np.ones(unit.size) if weights is None else weights / typical
    mean = (0.5 + np.cumsum(relative * unit)) / (np.cumsum(relative) + 1)
    variance = (0.25 + np.cumsum((relative * (unit - mean)) ** 2)) / (count + 1)
    before = np.concatenate(([0.25], variance[:-1]))
    # Nothing is known of the first group's size: it may be the largest.
    unit_of_weight = np.concatenate(([1.0], typical[:-1]))
    return np.asarray(np.sqrt(2 * math.log(1 / tail) / (count * np.log1p(count) * before)) / unit_of_weight)


def log_gains(
    unit: Array, stake_sizes: Array, mean: float, largest_bet: float = LARGEST_BET, weights: Array | float = 1.0
) -> Array:
    """Return the log gain of each value for a bettor on means above this one."""
    return np.asarray(np.log1p(np.minimum(stake_sizes, largest_stake(mean, largest_bet)) * weights * (unit - mean)))


def log_slopes(
    unit: Array, stake_sizes: Array, mean: float, largest_bet: float = LARGEST_BET, weights: Array | float = 1.0
) -> Array:
    """Return the derivatives of `log_gains` by the mean; they are never positive."""
    limit = largest_stake(mean, largest_bet)
    used = np.minimum(stake_sizes, limit) * weights
    pull = np.where(stake_sizes < limit, 1.0, unit / mean) if mean > 0 else np.ones(unit.size)
    return np.asarray(-used * pull / (1 + used * (unit - mean)))


def largest_stake(mean: float, largest_bet: float) -> float:
    """Return the largest stake against this mean."""
    return largest_bet / mean if mean > 0 else math.inf


def check_largest_bet(largest_bet: float) -> None:
    """Raise ValueError unless some wealth is left after the worst value."""
    if not 0.0 < largest_bet < 1.0:
        raise ValueError(f"the largest bet must be a share of the wealth between 0 and 1, not {largest_bet!r}")
