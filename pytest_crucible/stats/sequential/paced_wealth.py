"""The wealth of a bettor who aims at a goal within a fixed number of values, and the smallest start that reaches it.

A bettor starts with the share p of the goal and bets on means above m; each bet is fair if the mean is m. So the goal is
reached with a chance of at most p (Ville's inequality), for every distribution. The wealth q becomes q + bet (x - m), and is
not bet any more once it is 1.

With a spread s of one value and k values left, the best bet on normal values is phi(u) / (s sqrt(k)), where q = Phi(u): then
q is the chance of still reaching the goal if the mean is m (other bets paced to a fixed n: Voracek & Orabona 2025; with a
constant aim: Waudby-Smith & Ramdas 2024, JRSS B 86:1). An ellipse replaces phi(u), because it can be solved for q. The bet is
concave in q, 0 without wealth, below q / m, and does not grow with m. Hence every step rises in q and falls in m: there is
one smallest start, and it rises with m. The spread is that of the earlier values, so no value moves its own bet.

The constants were chosen by simulation, over the shapes of `benchmarks.guaranteed_bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array

SMALLEST = math.ulp(0.0)
# Share of the wealth that may be lost on one value. Rare losses favour .9; few samples that hardly vary, 1.
_LARGEST_BET = 0.995
# The bet g on a wealth q, in units of s sqrt(k), satisfies q (aim - q) = _LINEAR g + _SQUARE g^2. At shares of .001 to .5 it is
# within a quarter of phi(u); nearer to it the power at .05 is lower. An aim of 1 would often end just below the goal.
_AIM, _LINEAR, _SQUARE = 1.02, 0.4, 0.57
# For the same reason the last bet is as large as if a twentieth of a value were left.
_LEFT_AT_LAST = 0.05
# The variance before the first value, of values between 0 and 1; it counts as one of them.
_FIRST_VARIANCE = 0.15
# More values are joined before they are bet on, to take no longer.
_MOST_BETS = 10_000


@dataclass(frozen=True, slots=True)
class PacedBets:
    """The values that are bet on, in their order, scaled so that the largest has size 1, and 1 / (s sqrt(k)) before each."""

    totals: Array
    sizes: Array
    rates: Array

    def smallest_start(self, mean: float) -> float:
        """Return the smallest share of the goal from which bets on means above this one reach it, never 0.

        It is followed from the goal back to the start, each time from the share after a value to the one before it. Of
        the two bets, paced and largest, the smaller one counts: it gains less and loses less.
        """
        gains = (self.totals - mean * self.sizes)[::-1]
        factors = 1 + _LARGEST_BET / max(mean, SMALLEST**0.5) * gains
        start = 1.0
        for bet, factor in zip((self.rates[::-1] * gains).tolist(), factors.tolist(), strict=True):
            room = start * (_AIM - start)
            middle = _LINEAR + bet * (_AIM - 2 * start)
            square = _SQUARE + bet * bet
            root = math.sqrt(middle * middle + 4 * square * room)
            # Two forms of one solution, of which this one keeps its digits.
            paced = start - bet * (2 * room / (middle + root) if middle > 0 else (root - middle) / (2 * square))
            start /= factor
            if (paced > start) == (bet > 0):
                start = paced
            if start > 1.0:
                # Only a goal that is reached already, from which nothing is bet, survives such a loss.
                start = 1.0
        return max(start, SMALLEST)


def pace_bets(totals: Array, sizes: Array) -> PacedBets:
    """Return the bets on values, or on groups with their sizes, in this order. Totals lie between 0 and the size."""
    joined = -(-totals.size // _MOST_BETS)
    if joined > 1:
        starts = np.arange(0, totals.size, joined)
        totals, sizes = np.add.reduceat(totals, starts), np.add.reduceat(sizes, starts)
    largest = float(sizes.max())
    totals, sizes = totals / largest, sizes / largest
    left = np.arange(totals.size, 0, -1) - 1 + _LEFT_AT_LAST
    rates = 1 / np.sqrt(_variance_before(totals, sizes, _FIRST_VARIANCE / joined) * left)
    return PacedBets(totals=totals, sizes=sizes, rates=rates)


def _variance_before(totals: Array, sizes: Array, first: float) -> Array:
    """Return the variance of totals less the mean times their size, by the earlier ones alone."""
    mean = (0.5 + np.cumsum(totals)) / (1 + np.cumsum(sizes))
    before = np.concatenate(([0.5], mean[:-1]))
    squares = np.cumsum((totals - before * sizes) * (totals - mean * sizes))
    return np.asarray((first + np.concatenate(([0.0], squares[:-1]))) / np.arange(1, totals.size + 1))
