"""Cohen's kappa of two raters, and the position bias of pairwise judges.

Shared parts of the agreement coefficients: categories, weights, and the result with its raw agreement.
Every coefficient is (observed - expected) / (1 - expected) agreement; they differ in what they call expected.

Position bias of pairwise judges: a preference for the reply shown first, and the win rate without it.
Each pair is judged twice, with the candidate shown first and with the baseline shown first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import ROUNDING, Array, Codes, Labels, check_choice, check_share, paired_arrays
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.t_tests import unit_mean_interval
from pytest_crucible.stats.number_format import number, p_equals, quantity, with_interval, with_note
from pytest_crucible.stats.proportions.one import (
    clopper_pearson_interval,
    effective_wilson_interval,
    wilson_interval,
)
from pytest_crucible.stats.proportions.paired import mcnemar_exact
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
    check_choice(kind, get_args(Weights), "weights")
    if kind == "none" or count < 2:
        return np.eye(count)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) / (count - 1)
    return np.asarray(1 - (distance if kind == "linear" else distance**2), dtype=np.float64)


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


def cohen_kappa(
    rater1: Labels,
    rater2: Labels,
    *,
    weights: Weights = "none",
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
    sample_weights: npt.ArrayLike | None = None,
) -> Agreement:
    """Return Cohen's kappa with the standard error of Fleiss, Cohen & Everitt (1969) and its interval.

    (observed - expected) / (1 - expected) agreement, expected from each rater's own shares. `weights` count from the
    positions in `levels` (by default the sorted categories that occur). R: confint(vcd::Kappa(table, weights)), with
    transform="none". Kappa falls with lopsided categories even where raters agree: read it beside `raw`, or see
    `gwet_ac1`. Raises ValueError for raters of unequal length and for missing ratings (`krippendorff_alpha` takes
    them), NotEnoughData below 2 units. `sample_weights` are how many units each one stands for, where some were chosen
    with a greater probability: shares are weighted by them, and the error is linearised: that of
    R's survey::svykappa without its factor n / (n - 1).

    >>> result = cohen_kappa([1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 1])
    >>> round(result.value, 4), round(result.raw, 4)
    (0.3333, 0.6667)
    """
    check_share(level, "level")
    check_choice(transform, get_args(Transform), "transform")
    codes, categories = rating_codes([rater1, rater2], levels=levels)
    n, missing = codes.shape[1], int((codes == MISSING).sum())
    if missing:
        raise ValueError(f"{missing} of {codes.size} ratings are missing: drop their units or use krippendorff_alpha")
    if n < 2:
        raise NotEnoughData(f"{quantity(n, 'unit')}: agreement needs at least 2")
    size = len(categories)
    # The square table of both raters' categories, as shares of the units.
    cells = codes[0] * size + codes[1]
    shares: Array = np.bincount(cells, minlength=size * size).reshape(size, size) / n
    squares: Array | None = None
    name = "cohen kappa" if weights == "none" else f"cohen kappa, {weights} weights"
    if sample_weights is not None:
        each = check_sample_weights(sample_weights, n)
        shares, squares = (
            np.asarray(np.bincount(cells, part, size * size), dtype=np.float64).reshape(size, size)
            for part in (each, each**2)
        )
        # As many units as equal weights would need for the same variance of a mean (Kish 1965).
        n = max(2, int(1 / float(each @ each)))
    return _kappa(name, (shares, squares), agreement_weights(size, weights), n, level, transform)


def check_sample_weights(weights: npt.ArrayLike, units: int) -> Array:
    """Return weights that add up to 1. Raises ValueError unless each of the units has a positive one."""
    each = np.asarray(weights, dtype=np.float64)
    if each.shape != (units,) or not (np.isfinite(each).all() and (each > 0).all()):
        raise ValueError(f"{units} units need as many positive sample weights, not {each.size}")
    return np.asarray(each / each.sum(), dtype=np.float64)


def weighted_share(flags: npt.ArrayLike, weights: npt.ArrayLike, *, level: float = 0.95) -> tuple[float, Interval]:
    """Return the share of units with a flag, each weighted by how many units it stands for, and its interval.

    The share is that of Hajek (1971). Its interval is Wilson's, of as many units as give the linearised variance (Korn &
    Graubard 1998); of as many as equal weights would need, where all units agree.

    >>> share, interval = weighted_share([True, True, False, False], [1, 1, 4, 4])
    >>> round(share, 3), round(interval.low, 3), round(interval.high, 3)
    (0.2, 0.042, 0.586)
    """
    check_share(level, "level")
    values = np.asarray(flags, dtype=np.float64)
    each = check_sample_weights(weights, values.size)
    share = float(each @ values)
    variance = float(each**2 @ (values - share) ** 2)
    effective = share * (1 - share) / variance if variance > ROUNDING else 1 / float(each @ each)
    return share, effective_wilson_interval(share, effective, level=level)


def _kappa(
    name: str, table: tuple[Array, Array | None], weights: Array, n: int, level: float, transform: Transform
) -> Agreement:
    shares, _ = table
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    raw = float(np.trace(shares))
    result = Agreement(coefficient=name, raw=raw, observed=observed, expected=expected, units=n, raters=2)
    if expected >= 1 - ROUNDING:
        note = "all ratings are the same: agreement beyond chance is not defined, only the raw agreement is"
        return replace(result, status="degenerate", note=note)
    value = (observed - expected) / (1 - expected)
    se = _standard_error(table, weights, rows, columns, n)
    quantile = float(ndtri(0.5 + level / 2))
    return add_interval(result, value, se, quantile, level=level, method="fleiss-cohen-everitt", transform=transform)


def _standard_error(table: tuple[Array, Array | None], weights: Array, rows: Array, columns: Array, n: int) -> float:
    """Return the standard error of Fleiss, Cohen & Everitt 1969: the delta method over the table's cells.

    The second table has the sums of the units' squared weights; None where they are equal.
    """
    shares, squares = table
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    mean_weights = np.add.outer(weights @ columns, rows @ weights)
    terms = weights * (1 - expected) - mean_weights * (1 - observed)
    centre = observed * expected - 2 * expected + observed
    if squares is not None:
        return math.sqrt(float((squares * (terms - centre) ** 2).sum())) / (1 - expected) ** 2
    variance = float((shares * terms**2).sum()) - centre**2
    # Rounding may leave a variance of 0 slightly negative.
    return math.sqrt(max(variance, 0.0) / n) / (1 - expected) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """The effect of swapping the order of the replies."""

    pairs: int
    towards_first: int
    """Pairs whose verdict, on swapping, followed the first position."""
    towards_second: int
    p_value: float
    """Exact sign test of "neither position is preferred"."""
    first_share: float | None
    """`towards_first` among the pairs whose verdict moved; 1/2 without bias. None when no verdict moved."""
    first_interval: Interval
    """Clopper-Pearson: it excludes 1/2 whenever the p-value is below 1 - level, and only then."""
    consistency: float
    """Share of pairs with the same verdict in both orders."""
    consistency_interval: Interval
    win_rate: float
    """The candidate's win rate, ties half, averaged over both orders: a preference for a position cancels."""
    win_interval: Interval | None
    clusters: int | None = None

    def __str__(self) -> str:
        moved = f"moved verdicts {with_interval(self.first_share, self.first_interval)} towards the first position"
        same = f"same verdict {with_interval(self.consistency, self.consistency_interval)}"
        won = f"win rate {with_interval(self.win_rate, self.win_interval)}"
        return f"{moved}, {p_equals(self.p_value)}; {same}; {won}, pairs={self.pairs:,}"


def position_bias(
    candidate_first: npt.ArrayLike,
    baseline_first: npt.ArrayLike,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> PositionBias:
    """Return the position bias of a pairwise judge, its consistency, and the win rate over both orders.

    Both arguments hold the candidate's result in each pair: 1 won, 0.5 tie, 0 lost; first when it was shown first, then
    when the baseline was. The interval of the win rate is t over pairs, or CR2 over `clusters` of pairs; that of a
    sweep is the point-mass interval. The sign test and its interval treat pairs as independent. Raises ValueError for
    other verdicts and unequal lengths, NotEnoughData below 2 pairs.

    >>> result = position_bias([1, 1, 1, 1, 0.5, 0], [1, 0, 0, 1, 0, 0])
    >>> result.towards_first, result.towards_second, result.p_value, round(result.win_rate, 4)
    (3, 0, 0.25, 0.5417)
    """
    check_share(level, "level")
    first, second = paired_arrays(candidate_first, baseline_first)
    invalid = int(sum(np.sum((order != 0) & (order != 0.5) & (order != 1)) for order in (first, second)))
    if invalid:
        raise ValueError(f"{invalid} of {2 * first.size} verdicts are not 1 (won), 0.5 (tie) or 0 (lost)")
    if first.size < 2:
        raise NotEnoughData(f"{quantity(first.size, 'pair')}: position bias needs at least 2")
    forwards, backwards = int(np.sum(first > second)), int(np.sum(first < second))
    moved, n = forwards + backwards, first.size
    # Averaging both orders inside the pair cancels the position and halves the ties.
    win_interval, count = unit_mean_interval((first + second) / 2, clusters, level)
    return PositionBias(
        pairs=n,
        towards_first=forwards,
        towards_second=backwards,
        p_value=mcnemar_exact(forwards, backwards),
        first_share=forwards / moved if moved else None,
        first_interval=clopper_pearson_interval(forwards, moved, level=level),
        consistency=(n - moved) / n,
        consistency_interval=wilson_interval(n - moved, n, level=level),
        win_rate=float((first + second).mean()) / 2,
        win_interval=win_interval,
        clusters=count,
    )
