"""What the coefficients of agreement share: categories, weights, and the answer with its raw agreement beside it.

Every coefficient is (observed - expected) / (1 - expected) agreement; they differ in what they call expected.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, noted, number, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Status
from pytest_crucible.stats.observations import ROUNDING, Array, Codes, Labels, check_share
from pytest_crucible.stats.proportions.one import clopper_pearson_interval

Weights = Literal["none", "linear", "quadratic"]
"""How much two different categories agree: not at all, or 1 less the (squared) distance of their positions."""
Transform = Literal["fisher", "none"]
"""Where the interval is symmetric: on Fisher's z scale, atanh(coefficient), or, as R has it, on the coefficient's own.

Near 1 the second covers too little: 50 units, four ordered categories, quadratic kappa .81: 84 %, and 90 % with z.
"""
Ratings = Sequence[Labels] | npt.NDArray[Any]
"""Raters x units; None and NaN are ratings that were not given."""
MISSING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far raters agree beyond chance, never without their raw agreement."""

    coefficient: str
    value: float | None = None
    """None where only one category was used: agreement beyond chance is then 0/0."""
    interval: Interval | None = None
    se: float | None = None
    raw: float
    """The share of pairs of ratings of one unit that are the same."""
    observed: float
    """Agreement as the coefficient weighs it; `raw` where categories agree or do not."""
    expected: float
    """The agreement, so weighed, that the coefficient puts down to chance."""
    units: int
    """Those with at least two ratings."""
    raters: int
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        shown = f"{self.coefficient} {with_interval(self.value, self.interval)}, raw agreement {number(self.raw)}"
        return noted(f"{shown}, units={self.units:,}, raters={self.raters}", self.note)


def count_ratings(
    ratings: Ratings, *, levels: Sequence[Hashable] | None = None
) -> tuple[npt.NDArray[np.intp], tuple[Hashable, ...]]:
    """How often each unit (row) was put in each category (column), and the categories.

    `ratings` is raters x units with None or NaN where a rating is missing; `levels` are the categories in order, by
    default those that occur, sorted. Raises ValueError for ratings outside the levels and raters of unequal length.

    >>> counts, categories = count_ratings([["yes", "no", "yes"], ["yes", "yes", None]])
    >>> counts.tolist(), categories
    ([[0, 2], [1, 1], [0, 1]], ('no', 'yes'))
    """
    codes, categories = rating_codes(ratings, levels=levels)
    return table_of(codes, len(categories)), categories


def rating_codes(ratings: Ratings, *, levels: Sequence[Hashable] | None = None) -> tuple[Codes, tuple[Hashable, ...]]:
    """Ratings as positions in the sorted categories (raters x units, MISSING where there is none), and those."""
    lengths = sorted({len(rater) for rater in ratings})
    if len(lengths) > 1:
        raise ValueError(f"every rater needs one rating (or None) per unit, not {lengths[0]} and {lengths[-1]}")
    if len(ratings) < 2:
        raise ValueError(f"agreement needs ratings of at least 2 raters, not {len(ratings)}")
    rows = [rater.tolist() if isinstance(rater, np.ndarray) else list(rater) for rater in ratings]
    positions: dict[Hashable, int] = {level: place for place, level in enumerate(levels or ())}
    codes = np.array([[_position(value, positions) for value in row] for row in rows], dtype=np.intp)
    if levels is None:
        return _in_order(codes, positions)
    strange = int((codes >= len(levels)).sum())
    if strange:
        raise ValueError(f"{strange} of {codes.size} ratings are not among the {len(levels)} levels")
    return codes, tuple(levels)


def table_of(codes: Codes, categories: int) -> npt.NDArray[np.intp]:
    """Units x categories: how often each unit was put in each category."""
    units = np.broadcast_to(np.arange(codes.shape[1]), codes.shape)
    given = codes != MISSING
    cells = units[given] * categories + codes[given]
    return np.bincount(cells, minlength=codes.shape[1] * categories).reshape(codes.shape[1], categories)


def check_table(counts: npt.ArrayLike) -> Array:
    """A table of units x categories as floats. Raises ValueError for entries that are no counts, and for no units."""
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"wanted a table of units x categories, not {counted(table.ndim, 'dimension')}")
    strange = int(np.sum(~(np.isfinite(table) & (table >= 0) & (table == np.floor(table)))))
    if strange:
        raise ValueError(f"{strange} of {table.size} entries are not counts")
    if len(table) < 2:
        raise NotEnoughData(f"{counted(len(table), 'unit')}: agreement needs at least 2")
    return table


def agreement_weights(count: int, kind: Weights) -> Array:
    """How much each of `count` ordered categories agrees with each other one, from 0 to 1.

    >>> agreement_weights(3, "linear").tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    if kind not in ("none", "linear", "quadratic"):
        raise ValueError(f'weights are one of 3 kinds, "none", "linear" or "quadratic", not {kind!r}')
    if kind == "none" or count < 2:
        return np.eye(count)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) / (count - 1)
    return np.asarray(1 - (distance if kind == "linear" else distance**2), dtype=np.float64)


def check_transform(transform: Transform) -> None:
    """Raise ValueError for anything but the 2 transforms."""
    if transform not in ("fisher", "none"):
        raise ValueError(f'the transform is one of 2, "fisher" or "none", not {transform!r}')


def unit_agreement(table: Array, weights: Array) -> Array:
    """For each unit the mean agreement of its pairs of ratings; 0 where there is no pair."""
    sizes = table.sum(axis=1)
    pairs = sizes * (sizes - 1)
    agreeing = (table * (table @ weights)).sum(axis=1) - sizes
    return np.asarray(np.divide(agreeing, pairs, out=np.zeros_like(pairs), where=pairs > 0), dtype=np.float64)


def beyond_chance(
    coefficient: str,
    table: Array,
    weights: Array,
    unit_expected: Array,
    *,
    level: float,
    method: str,
    transform: Transform,
) -> Agreement:
    """A coefficient whose expected agreement is the mean of `unit_expected`, with its linearised interval.

    Each unit's influence is its agreement beyond chance less twice (1 - coefficient) its influence on the expected
    agreement, because the category shares enter that squared (Gwet 2008; Gwet 2021, EPM 81:781). t with
    units - 1 degrees of freedom, as in R's irrCAC. Units with one rating count in the category shares only.
    """
    check_share(level, "level")
    check_transform(transform)
    n, pairable = len(table), table.sum(axis=1) >= 2
    if not pairable.any():
        raise NotEnoughData(f"0 of {n} units have two ratings: nothing can agree")
    agreements = unit_agreement(table, weights)
    answer = Agreement(
        coefficient=coefficient,
        raw=float(unit_agreement(table, np.eye(len(weights)))[pairable].mean()),
        observed=float(agreements[pairable].mean()),
        expected=float(unit_expected.mean()),
        units=int(pairable.sum()),
        raters=int(table.sum(axis=1).max()),
    )
    if answer.expected >= 1 - ROUNDING:
        return one_category(answer)
    value = (answer.observed - answer.expected) / (1 - answer.expected)
    influences = (n / answer.units) * (agreements - answer.expected * pairable)
    influences = (influences - 2 * (1 - value) * (unit_expected - answer.expected)) / (1 - answer.expected)
    se = float(np.sqrt(((influences - value) ** 2).sum() / (n * (n - 1))))
    quantile = -float(stdtrit(n - 1, (1 - level) / 2))
    return with_limits(answer, value, se, quantile, level=level, method=method, transform=transform)


def one_category(answer: Agreement) -> Agreement:
    """The answer where all ratings are the same."""
    note = "all ratings are the same: agreement beyond chance is not defined, the raw agreement is"
    return replace(answer, status="degenerate", note=note)


def with_limits(
    answer: Agreement, value: float, se: float, quantile: float, *, level: float, method: str, transform: Transform
) -> Agreement:
    """The coefficient with its interval; where nothing varied, what so many agreeing units still say."""
    if answer.observed >= 1 - ROUNDING:
        return perfect(answer, level=level)
    if se <= ROUNDING:
        note = "no standard error: no unit speaks for more or less agreement than another"
        return replace(answer, value=value, status="degenerate", note=note)
    if value <= -1:
        note = "a coefficient of -1 or less has no interval"
        return replace(answer, value=value, status="degenerate", note=note)
    if transform == "none":
        low, high = max(-1.0, value - quantile * se), min(1.0, value + quantile * se)
    else:
        centre, half = math.atanh(value), quantile * se / (1 - value * value)
        low, high = math.tanh(centre - half), math.tanh(centre + half)
        method += ", fisher z"
    return replace(answer, value=value, interval=Interval(low=low, high=high, level=level, method=method), se=se)


def perfect(answer: Agreement, *, level: float) -> Agreement:
    """Perfect agreement: from 1 down to what it were if as many units disagreed wholly as the agreeing ones allow.

    Clopper-Pearson for the share of agreeing units, with the expected agreement as it is.
    """
    share = clopper_pearson_interval(answer.units, answer.units, level=level).low
    low = max(-1.0, (share - answer.expected) / (1 - answer.expected))
    interval = Interval(low=low, high=1.0, level=level, method="clopper-pearson of the agreeing units")
    note = "perfect agreement has no standard error: the interval is that of the share of agreeing units"
    return replace(answer, value=1.0, interval=interval, status="degenerate", note=note)


def _position(value: Hashable, positions: dict[Hashable, int]) -> int:
    """NaN is the one value that does not equal itself."""
    if value is None or value != value:
        return MISSING
    return positions.setdefault(value, len(positions))


def _in_order(codes: Codes, positions: dict[Hashable, int]) -> tuple[Codes, tuple[Hashable, ...]]:
    """Codes by sorted category instead of by first appearance. Categories that cannot be sorted need levels."""
    sortable: list[Any] = list(positions)
    try:
        categories: tuple[Hashable, ...] = tuple(sorted(sortable))
    except TypeError as error:
        raise ValueError(f"the {len(positions)} categories have no common order: name them with levels=") from error
    place = {value: number for number, value in enumerate(categories)}
    renumber = np.array([place[value] for value in positions] + [MISSING], dtype=np.intp)
    return renumber[codes], categories
