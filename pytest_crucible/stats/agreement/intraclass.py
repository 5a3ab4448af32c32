"""Intraclass correlations: the share of the variance of numeric ratings that is between the units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, fdtri

from pytest_crucible.stats.arrays import ROUNDING, Array, check_choice, check_share, finite_matrix
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import p_equals, quantity, with_interval, with_note
from pytest_crucible.stats.results import Status

Form = Literal["1", "2", "3", "1k", "2k", "3k"]
"""Shrout & Fleiss: 1 different raters for each unit, 2 a sample of raters for all (absolute agreement), 3 these same
raters for all (consistency: their own means do not count); with k for the mean of the raters instead of one."""

Ends = Literal["generalised", "f"]
# Draws of the generalised interval: with 50 units and 3 raters its ends then move by 0.01 (standard deviation) between
# seeds.
DRAWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IntraclassCorrelation:
    """One intraclass correlation with its F test of "no correlation"."""

    form: Form
    value: float | None
    interval: Interval | None = None
    statistic: float | None = None
    dof: tuple[int, int]
    p_value: float | None = None
    error: float
    """Standard deviation of one rating of a unit, in the unit of the ratings (form 3: raters' own means removed)."""
    units: int
    raters: int
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        summary = f"icc {self.form}: {with_interval(self.value, self.interval)}, {p_equals(self.p_value)}"
        return with_note(f"{summary}, units={self.units:,}, raters={self.raters}", self.note)


def intraclass_correlation(
    matrix: npt.ArrayLike,
    *,
    form: Form = "2",
    level: float = 0.95,
    interval: Ends = "generalised",
    rng: int | np.random.Generator = 0,
) -> IntraclassCorrelation:
    """Return the intraclass correlation of ratings units x raters.

    The default is that of a single rater and absolute agreement. Shrout & Fleiss 1979, McGraw & Wong 1996; R:
    psych::ICC(matrix, lmer=FALSE). Forms 1 and 3 have exact F intervals. Form 2 has the generalised one, from seeded
    draws of its mean squares (Gilder et al. 2007, J Biopharm Stat 17:731), which covers .94 and more; interval="f" is
    R's, which covers .77 when 3 raters with different means rate 200 units. The estimate may be negative. Raises
    ValueError for NaN and fewer than two raters, NotEnoughData below 2 units.

    >>> ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> result = intraclass_correlation(ratings, interval="f")
    >>> round(result.value, 2), round(result.interval.low, 2), round(result.interval.high, 2)
    (0.29, 0.02, 0.76)
    """
    check_share(level, "level")
    check_choice(form, get_args(Form), "form")
    check_choice(interval, get_args(Ends), "interval")
    ratings = finite_matrix(matrix, rows="units", columns="raters")
    if len(ratings) < 2:
        raise NotEnoughData(f"{quantity(len(ratings), 'unit')}: an intraclass correlation needs at least 2")
    return _estimate(_Squares.of(ratings), form, level, interval, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Squares:
    """Mean squares of the two-way table, and of the one-way table where raters and error are one."""

    units: int
    raters: int
    between: float
    between_raters: float
    within: float
    residual: float

    @classmethod
    def of(cls, ratings: Array) -> _Squares:
        n, k = ratings.shape
        centred = ratings - ratings.mean()
        # Centring first keeps the digits of ratings with a large mean.
        of_units, of_raters = centred.mean(axis=1), centred.mean(axis=0)
        within = float(((centred - of_units[:, None]) ** 2).sum())
        residual = float(((centred - of_units[:, None] - of_raters) ** 2).sum())
        # Equal ratings differ by rounding only: their squares count as 0.
        noise = (ROUNDING * float(np.abs(ratings).max())) ** 2 * n * k
        within, residual = (0.0 if squares <= noise else squares for squares in (within, residual))
        between, between_raters = k * float(of_units @ of_units), n * float(of_raters @ of_raters)
        return cls(
            units=n,
            raters=k,
            between=0.0 if between <= noise else between / (n - 1),
            between_raters=0.0 if between_raters <= noise else between_raters / (k - 1),
            within=within / (n * (k - 1)),
            residual=residual / ((n - 1) * (k - 1)),
        )


def _estimate(
    squares: _Squares, form: Form, level: float, interval: Ends, rng: int | np.random.Generator
) -> IntraclassCorrelation:
    n, k = squares.units, squares.raters
    dof = (n - 1, n * (k - 1) if form[0] == "1" else (n - 1) * (k - 1))
    error = squares.residual if form[0] == "3" else squares.within
    single = _single(squares, form)
    result = IntraclassCorrelation(
        form=form, value=_of_form(single, form, k), dof=dof, error=math.sqrt(error), units=n, raters=k
    )
    denominator = squares.within if form[0] == "1" else squares.residual
    if single is None or not denominator or not squares.between:
        note = "the ratings of all units, or those within each unit, do not vary: there is no F statistic"
        return replace(result, status="degenerate", note=note)
    statistic, method = squares.between / denominator, "f"
    if form[0] != "2":
        ends = _one_way_ends(statistic, dof, k, level)
    elif interval == "f":
        ends = _two_way_ends(squares, single, level)
    else:
        ends = _generalised_ends(squares, single, level, np.random.default_rng(rng))
        method = f"generalised, {DRAWS} draws" + (f", seed {rng}" if isinstance(rng, int) else "")
    low, high = (_of_form(end, form, k) for end in ends)
    found_interval = Interval(
        low=-math.inf if low is None else low, high=math.inf if high is None else high, level=level, method=method
    )
    return replace(result, interval=found_interval, statistic=statistic, p_value=float(fdtrc(*dof, statistic)))


def _single(squares: _Squares, form: Form) -> float | None:
    n, k = squares.units, squares.raters
    noise = squares.within if form[0] == "1" else squares.residual
    total = squares.between + (k - 1) * noise
    if form[0] == "2":
        # Absolute agreement: differences between the raters' means count as error.
        total += k * (squares.between_raters - noise) / n
    return (squares.between - noise) / total if total > 0 else None


def _of_form(single: float | None, form: Form, k: int) -> float | None:
    """Return the correlation of the mean of k raters by Spearman-Brown; None if it is unbounded."""
    if single is None or not form.endswith("k"):
        return single
    return k * single / (1 + (k - 1) * single) if 1 + (k - 1) * single > 0 else None


def _one_way_ends(statistic: float, dof: tuple[int, int], k: int, level: float) -> tuple[float, float]:
    """Return the F statistic divided by its quantiles, as correlations (Shrout & Fleiss 1979)."""
    low = statistic / float(fdtri(*dof, 0.5 + level / 2))
    high = statistic * float(fdtri(dof[1], dof[0], 0.5 + level / 2))
    return (low - 1) / (low + k - 1), (high - 1) / (high + k - 1)


def _two_way_ends(squares: _Squares, single: float, level: float) -> tuple[float, float]:
    """Return the ends with raters and residual as one error, by Satterthwaite (Shrout & Fleiss 1979)."""
    n, k, between, residual = squares.units, squares.raters, squares.between, squares.residual
    raters, rest = k * single * squares.between_raters, (n * (1 + (k - 1) * single) - k * single) * residual
    dof = (k - 1) * (n - 1) * (raters + rest) ** 2 / ((n - 1) * raters**2 + rest**2)
    error = k * squares.between_raters + (k * n - k - n) * residual
    upper, lower = float(fdtri(n - 1, dof, 0.5 + level / 2)), float(fdtri(dof, n - 1, 0.5 + level / 2))
    low = n * (between - upper * residual) / (upper * error + n * between)
    high = n * (lower * between - residual) / (error + n * lower * between)
    return low, high


def _generalised_ends(squares: _Squares, single: float, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return quantiles of the correlation over draws of the true mean squares.

    Each true mean square is its sum of squares over a chi-square of its own.
    """
    n, k = squares.units, squares.raters
    dofs = (n - 1, k - 1, (n - 1) * (k - 1))
    mean_squares = (squares.between, squares.between_raters, squares.residual)
    between, raters, residual = (
        square * dof / rng.chisquare(dof, DRAWS) for square, dof in zip(mean_squares, dofs, strict=True)
    )
    correlations = (between - residual) / (between + (k - 1) * residual + k * (raters - residual) / n)
    low, high = np.quantile(correlations, [(1 - level) / 2, (1 + level) / 2])
    # Quantiles of draws need not contain the estimate, which is biased for few raters.
    return min(float(low), single), max(float(high), single)
