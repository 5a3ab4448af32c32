"""Guaranteed one-sided bounds for a mean, by bets that are paced to the number of values that are left (`paced_wealth`).

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

from pytest_crucible.stats.arrays import Labels, Range, Side, check_share, check_side, cluster_totals
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.planning.roots import bracketed_root
from pytest_crucible.stats.resampling.units import hash_positions
from pytest_crucible.stats.sequential.confidence_sequence import unit_values
from pytest_crucible.stats.sequential.paced_wealth import SMALLEST, PacedBets, pace_bets

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

    >>> round(betting_bound([1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 3)
    0.904
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

    >>> betting_p_value([1.0] * 30, null=0.904, bounds=(0.0, 1.0), side="lower") < 0.05
    True
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
