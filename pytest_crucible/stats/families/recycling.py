"""Alpha that is passed on: what a proven question spent goes to those that are still open.

A graph of questions: each starts with a share of alpha, and gives it, once proven, to the others in fixed parts. Holm,
the fixed sequence, fallback and gatekeeping procedures are such graphs. Bretz, Maurer, Brannath & Posch 2009 (SiM
28:586).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.families.adjust import adjust
from pytest_crucible.stats.observations import Array

ROUNDING = 1e-9


def recycled(p_values: Sequence[float | None], shares: Sequence[float], transfers: npt.ArrayLike) -> list[float | None]:
    """Adjusted p-values of a graph of questions, algorithm 2 of Bretz et al. 2009. "adjusted <= alpha" decides.

    `shares` are the parts of alpha that each question starts with, at most 1 together; row i of `transfers` says in
    which parts question i gives its own away, 0 to itself and at most 1 together. None is never proven and passes
    nothing on.

    The chance of any false alarm is at most alpha, whatever the dependence. For each set of questions that are still
    open, the graph gives shares with a sum of at most 1, and a question's share only grows as others leave. Look at the
    set of all true null hypotheses, and at the first of them to be rejected: at that moment every true one is open, so
    the p-value was at most alpha times a share no larger than the one it has within the set of true ones alone.
    By Bonferroni over that set, whose shares sum to at most 1, this has a chance of at most alpha.

    >>> third = [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    >>> [round(p, 6) for p in recycled([0.01, 0.04, 0.03], [1 / 3] * 3, third)]
    [0.03, 0.06, 0.06]
    """
    adjust(p_values, "bonferroni")  # refuses what is no p-value
    weights, gives = _graph(len(p_values), shares, transfers)
    answers: list[float | None] = [None] * len(p_values)
    open_, largest = {i for i, p in enumerate(p_values) if p is not None}, 0.0
    values = [math.inf if p is None else float(p) for p in p_values]
    while open_:
        asked = {i: values[i] / float(weights[i]) if weights[i] > 0 else math.inf for i in open_}
        best = min(open_, key=lambda i: (asked[i], i))
        largest = max(largest, min(1.0, asked[best]))
        answers[best] = largest
        open_.remove(best)
        _pass_on(weights, gives, best)
    return answers


def parallel_gatekeeping(families: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Adjusted p-values of families in order, where each proven question opens the next family by its own share.

    Alpha starts equally split over the first family (Bonferroni); a proven question gives its share in equal parts to
    the next family; within the last family shares go around, as in Holm. So a later family is asked as soon as one
    question before it is proven, not all of them. A graph, so `recycled` says why alpha is kept. Dmitrienko, Offen &
    Westfall 2003. Raises ValueError for an empty family.

    >>> parallel_gatekeeping([[0.01, 0.3], [0.02, 0.4]])
    [[0.02, 0.6], [0.08, 0.6]]
    """
    sizes = [len(family) for family in families]
    if 0 in sizes:
        raise ValueError(f"family {sizes.index(0) + 1} of {len(sizes)} has no question")
    if not sizes:
        return []
    starts = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    transfers = np.zeros((starts[-1], starts[-1]))
    for k, size in enumerate(sizes):
        own = slice(starts[k], starts[k + 1])
        if k + 1 < len(sizes):
            transfers[own, starts[k + 1] : starts[k + 2]] = 1 / sizes[k + 1]
        elif size > 1:
            transfers[own, own] = (1 - np.eye(size)) / (size - 1)
    shares = [1 / sizes[0]] * sizes[0] + [0.0] * (starts[-1] - sizes[0])
    flat = recycled([p for family in families for p in family], shares, transfers)
    return [flat[starts[k] : starts[k + 1]] for k in range(len(sizes))]


def _pass_on(weights: Array, gives: Array, gone: int) -> None:
    """Take one question out of the graph, in place: algorithm 1 of Bretz et al. 2009."""
    weights += weights[gone] * gives[gone]
    weights[gone] = 0.0
    to, back = gives[gone].copy(), gives[:, gone].copy()
    around = 1 - back * to
    possible = around > ROUNDING
    gives += np.outer(back, to)
    gives /= np.where(possible, around, 1.0)[:, None]
    gives[~possible] = 0.0
    np.fill_diagonal(gives, 0.0)
    gives[gone], gives[:, gone] = 0.0, 0.0


def _graph(size: int, shares: Sequence[float], transfers: npt.ArrayLike) -> tuple[Array, Array]:
    weights, gives = np.array(shares, dtype=np.float64), np.array(transfers, dtype=np.float64).reshape(-1, size)
    if weights.shape != (size,) or gives.shape != (size, size):
        raise ValueError(f"{size} questions need {size} shares and {size} x {size} transfers")
    if not ((weights >= 0).all() and weights.sum() <= 1 + ROUNDING):
        raise ValueError(f"shares of alpha are at least 0 and sum to at most 1, not {weights.tolist()}")
    sums = gives.sum(axis=1)
    if not ((gives >= 0).all() and (sums <= 1 + ROUNDING).all() and not np.diag(gives).any()):
        raise ValueError(f"transfers are at least 0, none to oneself, and sum to at most 1, not {sums.tolist()}")
    return weights, gives
