"""Means and their differences by confidence sequences, which hold at every look: for runs that may stop early.

Values count in the order in which they are given, which must not depend on them. A group is one value, its mean.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.records import BoundedValue, Interval
from pytest_crucible.stats.arrays import Alternative, Side
from pytest_crucible.stats.measures.changes import change_bounds
from pytest_crucible.stats.measures.rounding import without_rounding
from pytest_crucible.stats.measures.row import Difference, Floats, Measured, Numbers, Prepared, no_bounds, no_data
from pytest_crucible.stats.sequential.betting import betting_sequence, evidence_against

METHOD = "betting sequence"
_SIDES: tuple[Side, ...] = ("lower", "upper")


def is_bounded(bounds: Numbers) -> bool:
    return all(map(math.isfinite, bounds))


def estimate_mean(prepared: Prepared, level: float) -> Measured:
    """Return the mean with its interval, which holds at every look; no interval without bounds."""
    if not len(prepared.values):
        return no_data(prepared)
    values = group_means(prepared)
    interval = _interval(values, prepared.bounds, 1 - level) if is_bounded(prepared.bounds) else None
    clusters = None if prepared.clusters is None else values.size
    return Measured(float(values.mean()), interval, clusters, METHOD if interval else "none")


def bound_mean(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the mean with its one-sided bounds, which hold at every look with probability 1 - alpha each."""
    if not len(prepared.values):
        return no_bounds(prepared)
    values = group_means(prepared)
    lower, upper = (_end(values, prepared.bounds, alpha, side) for side in _SIDES)
    return BoundedValue(value=float(values.mean()), lower=lower, upper=upper), METHOD


def compare_means(first: Prepared, second: Prepared, alpha: float, look_alpha: float) -> Difference | None:
    """Return first minus second, pair by pair, with an interval at alpha. None without pairs.

    The p-value and the one-sided bounds are those of bets at `look_alpha`, that of each claim.
    """
    if not len(first.values):
        return None
    pairs = paired(first, second)
    values = group_means(pairs)
    one_sided = [float(np.exp(-wealth_against(pairs, 0.0, look_alpha / 2, side)[-1])) for side in _SIDES]
    lower, upper = (_end(values, pairs.bounds, look_alpha, side) for side in _SIDES)
    return Difference(
        value=float(values.mean()),
        interval=_interval(values, pairs.bounds, alpha),
        p_value=min(1.0, 2 * min(one_sided)),
        p_exact=None,
        lower=lower,
        upper=upper,
        method=METHOD,
        bounds_method=METHOD,
        n=len(first.values),
        clusters=None if first.clusters is None else values.size,
        deviation=None,
        span=pairs.bounds[1] - pairs.bounds[0],
    )


def paired(first: Prepared, second: Prepared) -> Prepared:
    """Return the differences as values of their own, between -R and R where the metric has a range, or a reach, of R."""
    low, high = change_bounds(first)
    differences = first.values - without_rounding(first.values, second.values, first.bounds)
    return replace(first, values=np.clip(differences, low, high), kind="bounded", bounds=(low, high))


def wealth_against(prepared: Prepared, mean: float, alpha: float, side: Side) -> Floats:
    """Return the evidence against one mean after each value; it is refuted above log(1 / alpha)."""
    return evidence_against(group_means(prepared), mean=mean, bounds=prepared.bounds, alpha=alpha, side=side)


def group_means(prepared: Prepared) -> Floats:
    """Return one value a sample, or one a group, in the order of the groups' first samples."""
    if prepared.clusters is None:
        return prepared.values
    _, first, codes = np.unique(prepared.clusters, return_index=True, return_inverse=True)
    means = np.bincount(codes, weights=prepared.values) / np.bincount(codes)
    return np.asarray(means[np.argsort(first)])


def _end(values: Floats, bounds: Numbers, alpha: float, side: Side) -> float:
    alternative: Alternative = "greater" if side == "lower" else "less"
    sequence = betting_sequence(values, bounds=bounds, alpha=alpha, alternative=alternative)
    return float((sequence.lower if side == "lower" else sequence.upper)[-1])


def _interval(values: Floats, bounds: Numbers, alpha: float) -> Interval | None:
    # None if every mean is excluded, which a drift in the order of the samples can do.
    return betting_sequence(values, bounds=bounds, alpha=alpha).interval()
