"""Interactions of two segments: what both add together beyond what each adds alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.attribution.sets import SetPlan

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
    sets = np.arange(2**segments)
    sizes = sum((sets >> segment) & 1 for segment in range(segments))
    shares = _size_shares(segments)
    entries = []
    for i, j in combinations(range(segments), 2):
        others = sets[(sets >> i & 1 == 0) & (sets >> j & 1 == 0)]
        excess = scores[others | 1 << i | 1 << j] - scores[others | 1 << i] - scores[others | 1 << j] + scores[others]
        entries.append((i, j, float(shares[sizes[others]] @ excess)))
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
