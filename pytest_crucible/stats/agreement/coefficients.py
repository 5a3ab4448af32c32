"""Shared parts of the agreement coefficients: categories, weights, and the result with its raw agreement.

Every coefficient is (observed - expected) / (1 - expected) agreement; they differ in what they call expected.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, Codes, Labels
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, with_interval, with_note
from pytest_crucible.stats.proportions.one import clopper_pearson_interval
from pytest_crucible.stats.results import Status

Weights = Literal["none", "linear", "quadratic"]
"""Agreement of two different categories: none, or 1 less the (squared) distance of their positions."""
Transform = Literal["fisher", "none"]
"""The scale on which the interval is symmetric: Fisher's z, atanh(coefficient), or the coefficient's own, as in R.

Near 1 the second covers too little: 50 units, four ordered categories, quadratic kappa .81: 84 %, and 90 % with z.
"""
Ratings = Sequence[Labels] | npt.NDArray[Any]
"""Raters x units; None and NaN are missing ratings."""
# The code of a missing rating.
MISSING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement between raters beyond chance, always with their raw agreement."""

    coefficient: str
    value: float | None = None
    """None if only one category was used: agreement beyond chance is then 0/0."""
    interval: Interval | None = None
    se: float | None = None
    raw: float
    """The share of pairs of ratings of one unit that are the same."""
    observed: float
    """Agreement with the coefficient's weights; equals `raw` without weights."""
    expected: float
    """The weighted agreement that the coefficient attributes to chance."""
    units: int
    """Units with at least two ratings."""
    raters: int
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        summary = f"{self.coefficient} {with_interval(self.value, self.interval)}, raw agreement {number(self.raw)}"
        return with_note(f"{summary}, units={self.units:,}, raters={self.raters}", self.note)


def rating_codes(ratings: Ratings, *, levels: Sequence[Hashable] | None = None) -> tuple[Codes, tuple[Hashable, ...]]:
    """Return ratings as positions in the sorted categories, raters x units, and the categories.

    A missing rating is MISSING.
    """
    lengths = sorted({len(rater) for rater in ratings})
    if len(lengths) > 1:
        raise ValueError(
            f"raters have {lengths[0]} and {lengths[-1]} ratings: give one rating (or None) per unit for each"
        )
    if len(ratings) < 2:
        raise ValueError(f"agreement needs ratings of at least 2 raters, not {len(ratings)}")
    rows = [rater.tolist() if isinstance(rater, np.ndarray) else list(rater) for rater in ratings]
    positions: dict[Hashable, int] = {level: index for index, level in enumerate(levels or ())}
    codes = np.array([[_position(value, positions) for value in row] for row in rows], dtype=np.intp)
    if levels is None:
        return _in_order(codes, positions)
    outside = int((codes >= len(levels)).sum())
    if outside:
        raise ValueError(f"{outside} of {codes.size} ratings are not among the {len(levels)} levels")
    return codes, tuple(levels)


def agreement_weights(count: int, kind: Weights) -> Array:
    """Return how much each of `count` ordered categories agrees with each other, from 0 to 1.

    >>> agreement_weights(3, "linear").tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    if kind not in ("none", "linear", "quadratic"):
        raise ValueError(f'weights must be "none", "linear" or "quadratic", not {kind!r}')
    if kind == "none" or count < 2:
        return np.eye(count)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) / (count - 1)
    return np.asarray(1 - (distance if kind == "linear" else distance**2), dtype=np.float64)


def check_transform(transform: Transform) -> None:
    """Raise ValueError unless the transform is "fisher" or "none"."""
    if transform not in ("fisher", "none"):
        raise ValueError(f'transform must be "fisher" or "none", not {transform!r}')


def mark_undefined(result: Agreement) -> Agreement:
    """Return the result for ratings that are all the same."""
    note = "all ratings are the same: agreement beyond chance is not defined, only the raw agreement is"
    return replace(result, status="degenerate", note=note)


def add_interval(
    result: Agreement, value: float, se: float, quantile: float, *, level: float, method: str, transform: Transform
) -> Agreement:
    """Return the coefficient with its interval, or with a note on why it has none."""
    if result.observed >= 1 - ROUNDING:
        return complete_perfect_agreement(result, level=level)
    if se <= ROUNDING:
        note = "no standard error: all units agree equally"
        return replace(result, value=value, status="degenerate", note=note)
    if value <= -1:
        note = "a coefficient of -1 or less has no interval"
        return replace(result, value=value, status="degenerate", note=note)
    if transform == "none":
        low, high = max(-1.0, value - quantile * se), min(1.0, value + quantile * se)
    else:
        # The delta method: d atanh(x) / dx = 1 / (1 - x^2).
        centre, half = math.atanh(value), quantile * se / (1 - value * value)
        low, high = math.tanh(centre - half), math.tanh(centre + half)
        method += ", fisher z"
    return replace(result, value=value, interval=Interval(low=low, high=high, level=level, method=method), se=se)


def complete_perfect_agreement(result: Agreement, *, level: float) -> Agreement:
    """Return the result for perfect agreement, with a one-sided interval.

    Its lower end is the coefficient if as many units disagreed completely as the number of agreeing units allows:
    Clopper-Pearson for the share of agreeing units, with the expected agreement as it is.
    """
    share = clopper_pearson_interval(result.units, result.units, level=level).low
    low = max(-1.0, (share - result.expected) / (1 - result.expected))
    interval = Interval(low=low, high=1.0, level=level, method="clopper-pearson of the agreeing units")
    note = "perfect agreement has no standard error: the interval is that of the share of agreeing units"
    return replace(result, value=1.0, interval=interval, status="degenerate", note=note)


def _position(value: Hashable, positions: dict[Hashable, int]) -> int:
    """Return the code of a rating; MISSING for None and for NaN, the one value that does not equal itself."""
    if value is None or value != value:
        return MISSING
    return positions.setdefault(value, len(positions))


def _in_order(codes: Codes, positions: dict[Hashable, int]) -> tuple[Codes, tuple[Hashable, ...]]:
    """Return codes by sorted category instead of by first appearance.

    Categories that cannot be sorted need levels.
    """
    sortable: list[Any] = list(positions)
    try:
        categories: tuple[Hashable, ...] = tuple(sorted(sortable))
    except TypeError as error:
        raise ValueError(f"the {len(positions)} categories have no common order: name them with levels=") from error
    index = {value: number for number, value in enumerate(categories)}
    renumber = np.array([index[value] for value in positions] + [MISSING], dtype=np.intp)
    return renumber[codes], categories
