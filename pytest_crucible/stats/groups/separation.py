"""Permutation p-values of constant arms.

Their variance ratio is x / 0 and no interval exists, but the arrangements that are as extreme can be counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.results import Effect, Significance


def separation_p_value(groups: Sequence[Array], *, noise: float) -> float:
    """Return the permutation p-value of groups that are each constant: 1 when all are equal.

    At most k! of the N! / (m_1! m_2! ...) arrangements leave every group constant, with m_i the frequency of each value.
    For two different groups that is 2 / C(n1 + n2, n1).

    >>> round(separation_p_value([np.ones(4), np.zeros(5)], noise=0.0), 6)
    0.015873
    """
    values, sizes = np.array([group[0] for group in groups]), np.array([group.size for group in groups])
    order = np.argsort(values, kind="stable")
    # Groups whose values differ by rounding alone count as one value.
    block = np.concatenate([[0], np.cumsum(np.diff(values[order]) > noise)])
    occurrences = np.bincount(block, weights=sizes[order])
    if occurrences.size == 1:
        return 1.0
    # Logarithms: factorials overflow from 171 values on.
    ways = math.lgamma(len(groups) + 1) + sum(math.lgamma(count + 1) for count in occurrences)
    return min(1.0, math.exp(ways - math.lgamma(sizes.sum() + 1)))


def same_profile_p_value(matrix: Array) -> float:
    """Return the permutation p-value, within rows, of rows that all have one profile: 1 when it is flat.

    A row of k values has k! / (t_1! t_2! ...) different orders, with t_i the sizes of its ties, and all rows must agree
    with the first. For two columns that is 2^(1-n), the sign-flip p of equal differences.

    >>> round(same_profile_p_value(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])), 12)
    0.25
    """
    rows, columns = matrix.shape
    _, ties = np.unique(matrix[0], return_counts=True)
    orders = math.lgamma(columns + 1) - sum(math.lgamma(tie + 1) for tie in ties)
    return math.exp(-(rows - 1) * orders)


def all_tied(method: str, dof: tuple[float, ...], n: tuple[int, ...], effect: str) -> Significance:
    """Return the result of a rank test of several arms when all values are equal: p is 1, and the effect 0."""
    note = "everything is tied"
    return Significance(
        method=method,
        statistic=None,
        p_value=1.0,
        dof=dof,
        n=n,
        effects=(Effect(name=effect, value=0.0, note=note),),
        status="degenerate",
        note=note,
    )
