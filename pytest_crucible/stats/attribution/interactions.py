"""Interactions of two segments: what both add together beyond what each adds alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.attribution.sets import SetPlan, set_sizes

Interaction = tuple[int, int, float]

LARGEST = 3
"""Segments whose interactions are estimated unless all sets have scores."""


def plan_interactions(plan: SetPlan, shapley: Array, calls: int) -> tuple[int, ...]:
    """Return the sets of interactions beyond the plan that fit into `calls` requests in all: none if it is exact."""
    if plan.is_exact or np.isnan(shapley).any():
        return ()
    masks = (plan.whole ^ (1 << i) ^ (1 << j) for i, j in _largest_pairs(shapley))
    return tuple(mask for mask in masks if mask not in plan.masks)[: max(0, calls // plan.repeats - len(plan.masks))]


def index_interactions(segments: int, scores: Array) -> tuple[Interaction, ...]:
    """Return the Shapley interaction index of each pair (Grabisch & Roubens 1999, Int. J. Game Theory 28:547).

    `scores` are those of all sets, by their number. The index of i and j is the mean, over the orders of the other segments and
    of both as a single one, of v(S + i + j) - v(S + i) - v(S + j) + v(S).

    >>> index_interactions(2, np.array([0.0, 0.0, 0.0, 1.0]))
    ((0, 1, 1.0),)
    """
    if segments < 2:
        return ()
    # One axis for each segment, the last for segment 0.
    cube = scores.reshape((2,) * segments)
    weights = _size_shares(segments)[set_sizes(segments - 2)].reshape((2,) * (segments - 2))
    entries = []
    for i, j in combinations(range(segments), 2):
        pair = np.moveaxis(cube, (segments - 1 - i, segments - 1 - j), (0, 1))
        excess = pair[1, 1] - pair[1, 0] - pair[0, 1] + pair[0, 0]
        entries.append((i, j, float((weights * excess).sum())))
    return tuple(entries)


def probe_interactions(
    plan: SetPlan, places: Mapping[int, int], means: Array, shapley: Array
) -> tuple[Interaction, ...]:
    """Return v(all) - v(without i) - v(without j) + v(without both) of the largest values, where all four have scores."""
    if np.isnan(shapley).any():
        return ()
    entries = []
    for i, j in _largest_pairs(shapley):
        masks = [plan.whole ^ removed for removed in (0, 1 << i, 1 << j, 1 << i | 1 << j)]
        scores = [means[places[mask]] if mask in places else np.nan for mask in masks]
        entries.append((i, j, float(scores[0] - scores[1] - scores[2] + scores[3])))
    return tuple(entry for entry in entries if not np.isnan(entry[2]))


def _size_shares(segments: int) -> Array:
    """Return |S|! (n - |S| - 2)! / (n - 1)! for each size of S."""
    shares = [1 / (segments - 1)]
    for size in range(1, segments - 1):
        shares.append(shares[-1] * size / (segments - 1 - size))
    return np.array(shares)


def _largest_pairs(shapley: Array) -> list[tuple[int, int]]:
    largest = np.argsort(-np.abs(shapley), kind="stable")[:LARGEST]
    return list(combinations(sorted(largest.tolist()), 2))
