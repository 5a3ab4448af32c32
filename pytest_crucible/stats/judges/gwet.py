"""Gwet's AC1 and AC2: agreement whose chance part does not grow when one category prevails.

Kappa falls to nothing when 95 % of the answers are right, even where judges agree on nearly all: AC1 does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pytest_crucible.stats.judges.agreement import (
    Agreement,
    Ratings,
    Transform,
    Weights,
    agreement_weights,
    beyond_chance,
    check_table,
    count_ratings,
    one_category,
)
from pytest_crucible.stats.observations import Array


def gwet_ac1(
    ratings: Ratings,
    *,
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
) -> Agreement:
    """Gwet's AC1 of ratings raters x units (None or NaN where missing), for nominal categories.

    Expected agreement is sum(share * (1 - share)) / (q - 1) over the q categories: name them all in `levels`, also
    those that nobody used. Gwet 2008 (BJMSP 61:29), with its variance; R: irrCAC::gwet.ac1.raw, with
    transform="none". Raises ValueError for ratings outside the levels, NotEnoughData below 2 units or when no unit
    has two ratings.

    >>> result = gwet_ac1([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    >>> round(result.value, 4), round(result.raw, 4)
    (0.7561, 0.8)
    """
    return _answer("gwet ac1", ratings, levels, "none", level, transform)


def gwet_ac2(
    ratings: Ratings,
    *,
    weights: Weights = "quadratic",
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
) -> Agreement:
    """Gwet's AC2: AC1 with weights for ordinal categories, counted from the positions in `levels`.

    Gwet 2014, Handbook of Inter-Rater Reliability, ch. 5; R: irrCAC::gwet.ac1.raw(ratings, weights).

    >>> round(gwet_ac2([[1, 2, 3, 3, 1], [1, 2, 3, 2, 1]]).value, 4)
    0.8529
    """
    return _answer(f"gwet ac2, {weights} weights", ratings, levels, weights, level, transform)


def _answer(
    name: str, ratings: Ratings, levels: Sequence[Hashable] | None, kind: Weights, level: float, transform: Transform
) -> Agreement:
    counts, categories = count_ratings(ratings, levels=levels)
    table = check_table(counts)
    table = table[table.sum(axis=1) > 0]  # a unit that nobody rated is not there
    weights = agreement_weights(len(categories), kind)
    if len(categories) < 2 or len(table) < 2:
        return _without_chance(name, table)
    expected, method = _expected(table, weights), "linearised (gwet 2008), t"
    return beyond_chance(name, table, weights, expected, level=level, method=method, transform=transform)


def _expected(table: Array, weights: Array) -> Array:
    """Each unit's part of the expected agreement; their mean is that of Gwet 2008 (AC1) and 2014 (AC2)."""
    q = len(weights)
    within = table / table.sum(axis=1, keepdims=True)
    spread = float(weights.sum()) / (q * (q - 1))
    return np.asarray(spread * (within @ (1 - within.mean(axis=0))), dtype=np.float64)


def _without_chance(name: str, table: Array) -> Agreement:
    check_table(table)
    raters = int(table.sum(axis=1).max())
    return one_category(
        Agreement(coefficient=name, raw=1.0, observed=1.0, expected=1.0, units=len(table), raters=raters)
    )
