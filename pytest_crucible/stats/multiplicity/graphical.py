"""Graphical procedures: the alpha of a rejected hypothesis passes to those that are still open.

Each hypothesis starts with a share of alpha and, once rejected, gives it to the others in fixed parts. Holm, the fixed
sequence, fallback and gatekeeping procedures are such graphs. Bretz, Maurer, Brannath & Posch 2009 (SiM 28:586).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.multiplicity.adjust import adjust

# Shares such as 1/3 sum to 1 except for rounding.
ROUNDING = 1e-9


def adjust_by_graph(
    p_values: Sequence[float | None], shares: Sequence[float], transfers: npt.ArrayLike
) -> list[float | None]:
    """Return adjusted p-values of a graph of hypotheses; "adjusted <= alpha" is the decision.

    Algorithm 2 of Bretz et al. 2009. `shares` are the parts of alpha that each hypothesis starts with, at most 1
    together. Row i of `transfers` holds the parts in which hypothesis i passes its share on, 0 to itself and at most 1
    together. None is never rejected and passes nothing on.

    The chance of any false alarm is at most alpha under any dependence. For each set of open hypotheses, the graph
    gives shares with a sum of at most 1, and a hypothesis's share only grows as others leave. Take the set of all true
    null hypotheses, and the first of them to be rejected: at that moment every true one is open, so its p-value was at
    most alpha times a share no larger than the one it has within the set of true ones alone. By Bonferroni over that
    set, whose shares sum to at most 1, this has probability at most alpha.

    >>> third = [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    >>> [round(p, 6) for p in adjust_by_graph([0.01, 0.04, 0.03], [1 / 3] * 3, third)]
    [0.03, 0.06, 0.06]
    """
    # Called for its checks only: it raises ValueError for an invalid p-value.
    adjust(p_values, "bonferroni")
    weights, transfer_matrix = _graph(len(p_values), shares, transfers)
    adjusted: list[float | None] = [None] * len(p_values)
    still_open, largest = {i for i, p in enumerate(p_values) if p is not None}, 0.0
    values = [math.inf if p is None else float(p) for p in p_values]
    while still_open:
        ratios = {i: values[i] / float(weights[i]) if weights[i] > 0 else math.inf for i in still_open}
        best = min(still_open, key=lambda i: (ratios[i], i))
        largest = max(largest, min(1.0, ratios[best]))
        adjusted[best] = largest
        still_open.remove(best)
        _pass_on(weights, transfer_matrix, best)
    return adjusted


def parallel_gatekeeping(families: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Return adjusted p-values of families in order, where each rejection opens the next family by its own share.

    Alpha starts equally split over the first family (Bonferroni). A rejected hypothesis gives its share in equal parts
    to the next family; within the last family shares go around, as in Holm. So a later family is tested as soon as one
    hypothesis before it is rejected, not all of them. This is a graph, so the proof of `adjust_by_graph` applies.
    Dmitrienko, Offen & Westfall 2003. Raises ValueError for an empty family.

    >>> parallel_gatekeeping([[0.01, 0.3], [0.02, 0.4]])
    [[0.02, 0.6], [0.08, 0.6]]
    """
    sizes = [len(family) for family in families]
    if 0 in sizes:
        raise ValueError(f"family {sizes.index(0) + 1} of {len(sizes)} is empty: leave it out")
    if not sizes:
        return []
    starts = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    transfers = np.zeros((starts[-1], starts[-1]))
    for k, size in enumerate(sizes):
        members = slice(starts[k], starts[k + 1])
        if k + 1 < len(sizes):
            transfers[members, starts[k + 1] : starts[k + 2]] = 1 / sizes[k + 1]
        elif size > 1:
            transfers[members, members] = (1 - np.eye(size)) / (size - 1)
    shares = [1 / sizes[0]] * sizes[0] + [0.0] * (starts[-1] - sizes[0])
    flat = adjust_by_graph([p for family in families for p in family], shares, transfers)
    return [flat[starts[k] : starts[k + 1]] for k in range(len(sizes))]


def _pass_on(weights: Array, transfer_matrix: Array, removed: int) -> None:
    """Take one hypothesis out of the graph, in place: algorithm 1 of Bretz et al. 2009."""
    weights += weights[removed] * transfer_matrix[removed]
    weights[removed] = 0.0
    outgoing, incoming = transfer_matrix[removed].copy(), transfer_matrix[:, removed].copy()
    denominator = 1 - incoming * outgoing
    # Where all of a share would flow back and forth, nothing can be passed on.
    possible = denominator > ROUNDING
    transfer_matrix += np.outer(incoming, outgoing)
    transfer_matrix /= np.where(possible, denominator, 1.0)[:, None]
    transfer_matrix[~possible] = 0.0
    np.fill_diagonal(transfer_matrix, 0.0)
    transfer_matrix[removed], transfer_matrix[:, removed] = 0.0, 0.0


def _graph(size: int, shares: Sequence[float], transfers: npt.ArrayLike) -> tuple[Array, Array]:
    weights, transfer_matrix = (
        np.array(shares, dtype=np.float64),
        np.array(transfers, dtype=np.float64).reshape(-1, size),
    )
    if weights.shape != (size,) or transfer_matrix.shape != (size, size):
        raise ValueError(f"{size} p-values need {size} shares and {size} x {size} transfers")
    if not ((weights >= 0).all() and weights.sum() <= 1 + ROUNDING):
        raise ValueError(f"shares of alpha must be at least 0 and sum to at most 1, not {weights.tolist()}")
    sums = transfer_matrix.sum(axis=1)
    if not ((transfer_matrix >= 0).all() and (sums <= 1 + ROUNDING).all() and not np.diag(transfer_matrix).any()):
        raise ValueError(
            f"transfers must be at least 0, with a diagonal of 0 and rows that sum to at most 1, not {sums.tolist()}"
        )
    return weights, transfer_matrix
