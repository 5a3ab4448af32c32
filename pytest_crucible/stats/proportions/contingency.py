"""Chi-square tests of contingency tables and of stated shares, with Cramer's V and Cohen's w.

A chi-square test has one tail, so the two-sided interval that agrees with it at 5 % has the level .90 (Steiger 2004).
Effects therefore have intervals at the level 1 - 2 * (1 - level), which exclude 0 exactly when p < 1 - level.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import chdtr, chdtrc, chndtr

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Array, check_share, finite, finite_matrix
from pytest_crucible.stats.results import Effect, Significance

FEWEST_EXPECTED = 5.0
"""Below this expected count in a cell the chi-square distribution is a rough approximation (Cochran 1954)."""


def chi2_independence(table: npt.ArrayLike, *, correction: bool = False, level: float = 0.95) -> Significance:
    """Return Pearson's chi-square test that rows and columns are independent; R: chisq.test(table, correct=correction).

    `correction` is Yates's. It applies to 2 x 2 tables only, and not to the effects: Cramer's V, its bias-corrected form
    and Cohen's w. Rows and columns without counts are left out; p is 1 when fewer than two of either are left.

    >>> result = chi2_independence([[18, 7], [9, 16]])
    >>> round(result.statistic, 4), round(result.p_value, 6), round(result.effects[0].value, 4)
    (6.5217, 0.010656, 0.3612)
    """
    check_share(level, "level")
    whole = _counts(finite_matrix(table, rows="rows"))
    counts = whole[np.ix_(whole.sum(axis=1) > 0, whole.sum(axis=0) > 0)]
    rows, columns, n = *counts.shape, int(counts.sum())
    method = "chi-square, yates" if correction and whole.shape == (2, 2) else "chi-square"
    if min(rows, columns) < 2:
        note = "fewer than two rows or columns have counts"
        return Significance(method=method, statistic=None, p_value=1.0, n=(n,), status="degenerate", note=note)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    dof, chi2 = float((rows - 1) * (columns - 1)), _pearson(counts, expected, 0.0)
    statistic = _pearson(counts, expected, 0.5) if method == "chi-square, yates" else chi2
    return Significance(
        method=method,
        statistic=statistic,
        p_value=float(chdtrc(dof, statistic)),
        dof=(dof,),
        n=(n,),
        effects=_association(chi2, n, rows, columns, 2 * level - 1),
        note="; ".join(filter(None, [_left_out(whole, counts), _sparse(expected)])),
    )


def chi2_goodness_of_fit(
    observed: npt.ArrayLike, shares: npt.ArrayLike | None = None, *, level: float = 0.95
) -> Significance:
    """Return Pearson's chi-square test that counts follow shares, by default equal ones; R: chisq.test(observed, p).

    Raises ValueError unless the shares are positive and add up to 1.

    >>> result = chi2_goodness_of_fit([18, 22, 30, 10])
    >>> result.statistic, result.dof, round(result.p_value, 6)
    (10.4, (3.0,), 0.015455)
    """
    check_share(level, "level")
    counts = _counts(finite(observed, name="counts"))
    stated = _shares(shares, counts.size)
    n = int(counts.sum())
    if n == 0:
        note = "0 observations say nothing about shares"
        return Significance(
            method="goodness of fit", statistic=None, p_value=None, n=(0,), status="insufficient_data", note=note
        )
    statistic, dof = _pearson(counts, n * stated, 0.0), float(counts.size - 1)
    return Significance(
        method="goodness of fit",
        statistic=statistic,
        p_value=float(chdtrc(dof, statistic)),
        dof=(dof,),
        n=(n,),
        effects=(_scale_effect("cohens w", statistic, dof, 1 / n, math.inf, 2 * level - 1),),
        note=_sparse(n * stated),
    )


def noncentrality_interval(statistic: float, dof: float, *, level: float = 0.95) -> Interval:
    """Return the noncentralities for which a chi-square statistic is in neither tail (Steiger 2004); ends >= 0.

    >>> interval = noncentrality_interval(10.4, 3)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.3542, 24.3354)
    """
    check_share(level, "level")
    if not (statistic >= 0 and dof > 0):
        raise ValueError(f"expected a statistic of at least 0 and dof above 0, not {statistic!r} and {dof!r}")
    tail = (1 - level) / 2
    low, high = _noncentrality(statistic, dof, 1 - tail), _noncentrality(statistic, dof, tail)
    return Interval(low=low, high=high, level=level, method="noncentral chi-square")


def _noncentrality(statistic: float, dof: float, share: float) -> float:
    """Return the noncentrality at which P(chi-square <= statistic), a falling function of it, passes `share`."""
    if float(chdtr(dof, statistic)) <= share:
        return 0.0
    low, high = 0.0, 1.0
    # Doubling finds an upper end for the bisection at any noncentrality.
    while float(chndtr(statistic, dof, high)) > share:
        low, high = high, 2 * high
    # Bisection, because scipy's inverses of noncentral distributions are not accurate enough (docs/decisions/0008).
    while high - low > 1e-15 * high and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if float(chndtr(statistic, dof, middle)) > share else (low, middle)
    return (low + high) / 2


def _association(chi2: float, n: int, rows: int, columns: int, level: float) -> tuple[Effect, ...]:
    dof, smaller = float((rows - 1) * (columns - 1)), min(rows, columns) - 1
    largest = math.sqrt(smaller)
    return (
        _scale_effect("cramers v", chi2, dof, 1 / (n * smaller), 1.0, level),
        Effect(name="cramers v, bias-corrected", value=_bias_corrected(chi2 / n, n, rows, columns)),
        _scale_effect("cohens w", chi2, dof, 1 / n, largest, level),
    )


def _scale_effect(name: str, chi2: float, dof: float, scale: float, largest: float, level: float) -> Effect:
    """Return sqrt(chi2 * scale), with the interval of the noncentrality on the same scale."""
    if not 0.0 < level < 1.0:
        return Effect(name=name, value=min(math.sqrt(chi2 * scale), largest))
    ends = noncentrality_interval(chi2, dof, level=level)
    low, high = (min(math.sqrt(end * scale), largest) for end in (ends.low, ends.high))
    interval = Interval(low=low, high=high, level=level, method=ends.method)
    return Effect(name=name, value=min(math.sqrt(chi2 * scale), largest), interval=interval)


def _bias_corrected(phi2: float, n: int, rows: int, columns: int) -> float | None:
    """Return the bias-corrected V of Bergsma 2013 (J Korean Stat Soc 42:323); R: effectsize::cramers_v(adjust=TRUE)."""
    if n < 2:
        return None
    # Bergsma's bias-corrected numbers of rows and columns.
    fewer = min(side - (side - 1) ** 2 / (n - 1) for side in (rows, columns)) - 1
    above = max(phi2 - (rows - 1) * (columns - 1) / (n - 1), 0.0)
    return math.sqrt(above / fewer) if fewer > 0 else None


def _pearson(counts: Array, expected: Array, yates: float) -> float:
    distances = np.abs(counts - expected)
    # The correction never exceeds the distance itself, as in R: it would overshoot the expected count.
    distances -= min(yates, float(distances.min()))
    return float((distances * distances / expected).sum())


def _counts(array: Array) -> Array:
    strange = int(np.sum((array < 0) | (array != np.floor(array))))
    if strange:
        raise ValueError(f"{strange} of {array.size} cells are not counts: negative or not whole")
    return array


def _shares(shares: npt.ArrayLike | None, size: int) -> Array:
    if size < 2:
        raise ValueError(f"expected counts of at least 2 outcomes, not {size}")
    stated = np.full(size, 1 / size) if shares is None else finite(shares, name="shares")
    if stated.size != size or bool((stated <= 0).any()) or abs(float(stated.sum()) - 1) > 1e-8:
        raise ValueError(
            f"expected {size} positive shares that add up to 1, not {stated.size} with sum {stated.sum()!r}"
        )
    return stated


def _left_out(whole: Array, counts: Array) -> str:
    empty = sum(whole.shape) - sum(counts.shape)
    which = "row or column" if empty == 1 else "rows or columns"
    return f"{empty} {which} without counts left out" if empty else ""


def _sparse(expected: Array) -> str:
    smallest = float(expected.min())
    return f"smallest expected count {smallest:.2g}: an exact test is safer" if smallest < FEWEST_EXPECTED else ""
