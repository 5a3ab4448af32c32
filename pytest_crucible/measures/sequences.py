"""Means and their differences by confidence sequences, which hold at every look: for runs that may stop early.

Values count in the order in which they are given, which must not depend on them. A group is one bet, weighted by its size: the
estimate is the mean over samples, as in a run without looks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_crucible.measures.row import Difference, Floats, Measured, Numbers, Prepared, no_bounds, no_data
from pytest_crucible.measures.values import change_bounds, without_rounding
from pytest_crucible.records import BoundedValue
from pytest_crucible.stats.arrays import Alternative, Side
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.sequential.betting import LARGEST_BET, betting_sequence, evidence_against

METHOD = "betting sequence"
# Only the largest group of the plan can lose the whole stake. Of 100 groups of 1 to 20, a limit that is .1 away from a rate of .8
# is proven by .89 of runs at alpha .025; by .38 with LARGEST_BET.
GROUPED_BET = 0.75
_SIDES: tuple[Side, ...] = ("lower", "upper")


def is_bounded(bounds: Numbers) -> bool:
    return all(map(math.isfinite, bounds))


def estimate_mean(prepared: Prepared, level: float) -> Measured:
    """Return the mean with its interval, which holds at every look; no interval without bounds."""
    if not len(prepared.values):
        return no_data(prepared)
    bets = bets_of(prepared)
    interval = _interval(bets, prepared.bounds, 1 - level) if is_bounded(prepared.bounds) else None
    clusters = None if prepared.clusters is None else bets.values.size
    return Measured(mean_of(prepared), interval, clusters, METHOD if interval else "none")


def bound_mean(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the mean with its one-sided bounds, which hold at every look with probability 1 - alpha each."""
    if not len(prepared.values):
        return no_bounds(prepared)
    bets = bets_of(prepared)
    lower, upper = (_end(bets, prepared.bounds, alpha, side) for side in _SIDES)
    return BoundedValue(value=mean_of(prepared), lower=lower, upper=upper), METHOD


def compare_means(first: Prepared, second: Prepared, alpha: float, look_alpha: float) -> Difference | None:
    """Return first minus second, pair by pair, with an interval at alpha. None without pairs.

    The p-value and the one-sided bounds are those of bets at `look_alpha`, that of each claim.
    """
    if not len(first.values):
        return None
    pairs = pair_differences(first, second)
    bets = bets_of(pairs)
    one_sided = [float(np.exp(-wealth_against(pairs, 0.0, look_alpha / 2, side)[-1])) for side in _SIDES]
    lower, upper = (_end(bets, pairs.bounds, look_alpha, side) for side in _SIDES)
    return Difference(
        value=_difference(first, second, pairs),
        interval=_interval(bets, pairs.bounds, alpha),
        p_value=min(1.0, 2 * min(one_sided)),
        lower=lower,
        upper=upper,
        method=METHOD,
        bounds_method=METHOD,
        n=len(first.values),
        clusters=None if first.clusters is None else bets.values.size,
        span=pairs.bounds[1] - pairs.bounds[0],
    )


def pair_differences(first: Prepared, second: Prepared) -> Prepared:
    """Return the differences as values of their own, between -R and R where the metric has a range, or a reach, of R.

    Where lost replies leave the arms unequal numbers, a pair weighs as much as their average.
    """
    low, high = change_bounds(first)
    differences = first.values - without_rounding(first.values, second.values, first.bounds)
    return replace(
        first,
        values=np.clip(differences, low, high),
        kind="bounded",
        bounds=(low, high),
        weights=None if first.weights is None else (first.weights + _weights(second)) / 2,
    )


def wealth_against(prepared: Prepared, mean: float, alpha: float, side: Side) -> Floats:
    """Return the evidence against one mean after each value; it is refuted above log(1 / alpha)."""
    bets = bets_of(prepared)
    return evidence_against(
        bets.values,
        mean=mean,
        bounds=prepared.bounds,
        alpha=alpha,
        side=side,
        weights=bets.weights,
        largest_bet=bets.largest_bet,
    )


class Bets(NamedTuple):
    """One value a sample, or one a group, in the order of the first samples, and its share of the largest weight."""

    values: Floats
    weights: Floats
    largest_bet: float


def bets_of(prepared: Prepared) -> Bets:
    """Return the values that are bet on: each group's mean, and its size over that of the plan's largest group."""
    values, sizes = prepared.values, _weights(prepared)
    if prepared.clusters is not None:
        _, first, codes = np.unique(prepared.clusters, return_index=True, return_inverse=True)
        order = np.argsort(first)
        totals: Floats = np.bincount(codes, weights=sizes).astype(np.float64)
        values = (np.bincount(codes, weights=sizes * prepared.values) / totals)[order]
        sizes = totals[order]
    return Bets(
        values,
        sizes / max(prepared.heaviest, float(sizes.max(initial=0.0))),
        LARGEST_BET if prepared.clusters is None else GROUPED_BET,
    )


def mean_of(prepared: Prepared) -> float:
    """Return the mean over samples, or over replies where each counts."""
    return float(np.average(prepared.values, weights=prepared.weights))


def _weights(prepared: Prepared) -> Floats:
    return np.ones(len(prepared.values)) if prepared.weights is None else prepared.weights


def _difference(first: Prepared, second: Prepared, pairs: Prepared) -> float:
    """Return the difference of the arms' means; of equal weights that of the pairs, whose rounding is corrected."""
    if first.weights is None or np.array_equal(first.weights, _weights(second)):
        return mean_of(pairs)
    return mean_of(first) - mean_of(second)


def _end(bets: Bets, bounds: Numbers, alpha: float, side: Side) -> float:
    alternative: Alternative = "greater" if side == "lower" else "less"
    sequence = betting_sequence(
        bets.values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        weights=bets.weights,
        largest_bet=bets.largest_bet,
    )
    return float((sequence.lower if side == "lower" else sequence.upper)[-1])


def _interval(bets: Bets, bounds: Numbers, alpha: float) -> Interval | None:
    # None if every mean is excluded, which a drift in the order of the samples can do.
    return betting_sequence(
        bets.values, bounds=bounds, alpha=alpha, weights=bets.weights, largest_bet=bets.largest_bet
    ).interval()
