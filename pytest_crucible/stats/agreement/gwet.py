"""Gwet's AC1 and AC2: agreement whose chance part does not grow when one category prevails.

Kappa falls to nothing when 95 % of the answers are right, even where raters agree on nearly all; AC1 does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pytest_crucible.stats.agreement.coefficients import (
    Agreement,
    Ratings,
    Transform,
    Weights,
    agreement_weights,
    chance_corrected_agreement,
    check_table,
    count_ratings,
    mark_undefined,
)
from pytest_crucible.stats.arrays import Array


def gwet_ac1(
    ratings: Ratings,
    *,
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
) -> Agreement:
    """Return Gwet's AC1 of ratings raters x units (None or NaN if missing), for nominal categories.

    Expected agreement is sum(share * (1 - share)) / (q - 1) over the q categories: list all of them in `levels`,
    including unused ones. Gwet 2008 (BJMSP 61:29), with its variance; R: irrCAC::gwet.ac1.raw, with transform="none".
    Raises ValueError for ratings outside the levels, NotEnoughData below 2 units or when no unit has two ratings.

    >>> result = gwet_ac1([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    >>> round(result.value, 4), round(result.raw, 4)
    (0.7561, 0.8)
    """
    return _agreement("gwet ac1", ratings, levels, "none", level, transform)


def gwet_ac2(
    ratings: Ratings,
    *,
    weights: Weights = "quadratic",
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
) -> Agreement:
    """Return Gwet's AC2: AC1 with weights for ordinal categories, by their positions in `levels`.

    Gwet 2014, Handbook of Inter-Rater Reliability, ch. 5; R: irrCAC::gwet.ac1.raw(ratings, weights).

    >>> round(gwet_ac2([[1, 2, 3, 3, 1], [1, 2, 3, 2, 1]]).value, 4)
    0.8529
    """
    return _agreement(f"gwet ac2, {weights} weights", ratings, levels, weights, level, transform)


def _agreement(
    name: str, ratings: Ratings, levels: Sequence[Hashable] | None, kind: Weights, level: float, transform: Transform
) -> Agreement:
    counts, categories = count_ratings(ratings, levels=levels)
    table = check_table(counts)
    # A unit without ratings does not count.
    table = table[table.sum(axis=1) > 0]
    weights = agreement_weights(len(categories), kind)
    if len(categories) < 2 or len(table) < 2:
        return _without_chance(name, table)
    expected, method = _unit_expected(table, weights), "linearised (gwet 2008), t"
    return chance_corrected_agreement(name, table, weights, expected, level=level, method=method, transform=transform)


def _unit_expected(table: Array, weights: Array) -> Array:
    """Return each unit's part of the expected agreement.

    Their mean is that of Gwet 2008 (AC1) and 2014 (AC2).
    """
    q = len(weights)
    within = table / table.sum(axis=1, keepdims=True)
    # AC1 has weights of 0 and 1, whose sum is q: the factor 1 / (q - 1).
    spread = float(weights.sum()) / (q * (q - 1))
    return np.asarray(spread * (within @ (1 - within.mean(axis=0))), dtype=np.float64)


def _without_chance(name: str, table: Array) -> Agreement:
    check_table(table)
    raters = int(table.sum(axis=1).max())
    return mark_undefined(
        Agreement(coefficient=name, raw=1.0, observed=1.0, expected=1.0, units=len(table), raters=raters)
    )
