"""The wealth of one who bets against a mean: fair bets, so that large wealth is evidence that the mean is larger.

Values lie in [0, 1]. Against the mean m the stake before value i is min(b_i, c / m), and the wealth is the product of
1 + stake * (x_i - m). It cannot rise with m: that is why the means not yet refuted are an interval, exactly.
Waudby-Smith & Ramdas 2024 (JRSS B 86:1), section 4.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.observations import Array

LARGEST_BET = 0.5
"""Share of the wealth that may be lost on one value."""


def stakes(unit: Array, tail: float, *, planned: int | None = None) -> Array:
    """Stake before each value, from the values before it: sqrt(2 log(1 / tail) / (i log(1 + i) * variance)).

    With `planned` values in all, i log(1 + i) is `planned`: the best constant stake for a bound after exactly so many.
    The variance starts at 1/4 and the mean at 1/2, both as one observation. Equation 26 of the paper.
    """
    count = np.arange(1, unit.size + 1)
    mean = (0.5 + np.cumsum(unit)) / (count + 1)
    variance = (0.25 + np.cumsum((unit - mean) ** 2)) / (count + 1)
    before = np.concatenate(([0.25], variance[:-1]))
    horizon = count * np.log1p(count) if planned is None else planned
    return np.asarray(np.sqrt(2 * math.log(1 / tail) / (horizon * before)))


def log_gains(unit: Array, staked: Array, mean: float, largest_bet: float = LARGEST_BET) -> Array:
    """What each value adds to the log of the wealth that bets on means above this one."""
    return np.asarray(np.log1p(np.minimum(staked, largest(mean, largest_bet)) * (unit - mean)))


def log_slopes(unit: Array, staked: Array, mean: float, largest_bet: float = LARGEST_BET) -> Array:
    """Derivatives of `log_gains` by the mean; never positive."""
    limit = largest(mean, largest_bet)
    used = np.minimum(staked, limit)
    pull = np.where(staked < limit, 1.0, unit / mean) if mean > 0 else np.ones(unit.size)
    return np.asarray(-used * pull / (1 + used * (unit - mean)))


def largest(mean: float, largest_bet: float) -> float:
    """Largest stake against this mean."""
    return largest_bet / mean if mean > 0 else math.inf


def check_largest_bet(largest_bet: float) -> None:
    """Raise ValueError unless some wealth is left after the worst value."""
    if not 0.0 < largest_bet < 1.0:
        raise ValueError(f"the largest bet is a share of the wealth between 0 and 1, not {largest_bet!r}")
