"""Guaranteed one-sided bounds for a mean, by bets that are paced to the number of values that are left.

The wealth of a bettor who aims at a goal within a fixed number of values, and the smallest start that reaches it.
A bettor starts with the share p of the goal and bets on means above m; each bet is fair if the mean is m. So the goal is
reached with a chance of at most p (Ville's inequality), for every distribution. The wealth q becomes q + bet (x - m), and is
not bet any more once it is 1.

With a spread s of one value and k values left, the best bet on normal values is phi(u) / (s sqrt(k)), where q = Phi(u): then
q is the chance of still reaching the goal if the mean is m (other bets paced to a fixed n: Voracek & Orabona 2025; with a
constant aim: Waudby-Smith & Ramdas 2024, JRSS B 86:1). An ellipse replaces phi(u), because it can be solved for q. The bet is
concave in q, 0 without wealth, below q / m, and does not grow with m. Hence every step rises in q and falls in m: there is
one smallest start, and it rises with m. The spread is that of the earlier values, so no value moves its own bet.

The constants were chosen by simulation, over the shapes of `benchmarks.guaranteed_bounds`.

The p-value is the smallest share of a goal with which a bettor on means above m reaches it, and the bound at alpha is the
largest m for which that share is at most alpha. So p-value and bound agree, and bounds are nested in alpha. Both hold for
every distribution of values between the bounds.

Groups are one bet each, on their total less m times their size: the mean over values is tested, also where effects go with
size. Then it is guaranteed for groups that were drawn independently from a population without groups larger than the
largest of these; a bet must not depend on the size of the group it is placed on, so all are as small as that one demands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Labels, Range, Side, check_share, check_side, cluster_totals
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.planning.roots import bracketed_root
from pytest_crucible.stats.resampling.draws import hash_positions
from pytest_crucible.stats.sequential.betting import unit_values

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


# Of the range: further digits would cost time and differ in nothing that is printed.
_EXACT = 1e-9
_LARGEST = math.nextafter(1.0, 0.0)


def betting_bound(
    values: npt.ArrayLike,
    *,
    bounds: Range,
    alpha: float,
    side: Side,
    clusters: Labels | None = None,
    keys: npt.ArrayLike | None = None,
) -> float:
    """Return a one-sided bound for the mean after a number of values that was fixed beforehand.

    It errs with probability at most alpha for every distribution within the bounds. The values count in the order of
    `keys`, one sortable key each, which must not depend on the values: a hash of their ids. Without keys the order is
    a fixed shuffle of the positions, which a dataset sorted by its values would void. For differences, `bounds` are those
    of a difference. Raises ValueError for values outside the bounds, NotEnoughData without values or below five clusters.
    """
    from scipy.special import ndtri

    check_share(alpha, "alpha")
    bets = _place_bets(values, bounds, side, clusters, keys)
    goal = float(ndtri(alpha))

    def excess(mean: float) -> float:
        # On the normal scale the p-value is nearly a straight line of the mean. A p-value of 1 would be infinite.
        return float(ndtri(min(bets.smallest_start(mean), _LARGEST))) - goal

    end, width = (bounds[0], bounds[1] - bounds[0]) if side == "lower" else (bounds[1], bounds[0] - bounds[1])
    return end + width * _find_bound(excess, bets, alpha)


def betting_p_value(
    values: npt.ArrayLike,
    *,
    null: float,
    bounds: Range,
    side: Side,
    clusters: Labels | None = None,
    keys: npt.ArrayLike | None = None,
) -> float:
    """Return the smallest alpha at which `betting_bound` excludes `null`: for "lower", evidence that the mean is above it.

    It is at most a with probability at most a, for every a. Other arguments and errors as in `betting_bound`.
    """
    bets = _place_bets(values, bounds, side, clusters, keys)
    share = (null - bounds[0]) / (bounds[1] - bounds[0])
    share = share if side == "lower" else 1 - share
    if share < 0:
        return SMALLEST
    return 1.0 if share >= 1 else bets.smallest_start(share)


def _find_bound(excess: Callable[[float], float], bets: PacedBets, alpha: float) -> float:
    """Return the zero of the rising excess; 0 where it is nowhere below 0."""
    high = float((bets.totals / bets.sizes).max())
    brackets = [*itertools.pairwise((0.0, *_likely_ends(bets, alpha), high))]
    # The likely bracket is the middle one of three, and tried first.
    for near, far in (brackets[1], brackets[0], brackets[2]):
        if near < far and (at_near := excess(near)) < 0 <= (at_far := excess(far)):
            return bracketed_root(excess, near, at_near, far, at_far, error=_EXACT)
    return 0.0


def _likely_ends(bets: PacedBets, alpha: float) -> tuple[float, float]:
    """Return two means that enclose the bound in most cases, from the normal approximation and that without spread."""
    total, count = float(bets.sizes.sum()), bets.sizes.size
    mean = float(bets.totals.sum()) / total
    error = float(np.linalg.norm(bets.totals - mean * bets.sizes)) / total
    distance = max(0.75 * math.sqrt(-2 * math.log(alpha)) * error, mean * -math.expm1(math.log(alpha) / count))
    return max(mean - 1.4 * distance, 0.0), mean - 0.8 * distance


def _place_bets(
    values: npt.ArrayLike, bounds: Range, side: Side, clusters: Labels | None, keys: npt.ArrayLike | None
) -> PacedBets:
    """Return the values or groups in their order, mirrored for an upper bound."""
    check_side(side)
    unit = unit_values(values, bounds)
    ranks = hash_positions(unit.size) if keys is None else _check_keys(keys, unit.size)
    if clusters is None:
        totals, sizes = unit, np.ones(unit.size)
    else:
        _, codes, _ = check_clustered(unit, clusters)
        totals, sizes = cluster_totals(codes, unit), np.bincount(codes).astype(np.float64)
        # The key of its first value says nothing about a group's size; the smallest of its keys would bring large ones first.
        ranks = ranks[np.unique(codes, return_index=True)[1]]
    order = np.argsort(ranks, kind="stable")
    totals, sizes = totals[order], sizes[order]
    return pace_bets(totals if side == "lower" else np.maximum(sizes - totals, 0.0), sizes)


def _check_keys(keys: npt.ArrayLike, count: int) -> npt.NDArray[np.generic]:
    array = np.asarray(keys)
    if array.shape != (count,):
        raise ValueError(f"keys must hold one key for each of the {count} values, not the shape {array.shape}")
    return array
