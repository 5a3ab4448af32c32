"""Tests of equal variances: Levene, Brown-Forsythe, Bartlett, and the F test of two variances.

They choose no test of means: those of this package do not need equal variances.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import fdtr, fdtrc, fdtri

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    check_alternative,
    check_choice,
    check_share,
    finite,
    finite_groups,
    is_constant,
)
from pytest_crucible.stats.groups.anova import Arms, deviations, rounding_noise, variance_analysis
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import tail_share

Centre = Literal["median", "mean"]


def levene(groups: Arms, *, centre: Centre = "median") -> Significance:
    """Return the one-way F test on the distances from each group's centre; R: car::leveneTest(v, g, center=...).

    With the median it is Brown & Forsythe's test (1974), which keeps its level for skewed scores; with the mean it is
    Levene's (1960).

    >>> result = levene([[1, 2, 3, 4], [2, 6, 10, 14]])
    >>> round(result.statistic, 4), result.dof, round(result.p_value, 4)
    (6.3529, (1, 6), 0.0453)
    """
    check_choice(centre, get_args(Centre), "centre")
    arrays = finite_groups(groups)
    middle = np.median if centre == "median" else np.mean
    distances = [np.abs(group - middle(group)) for group in arrays]
    name = "brown-forsythe" if centre == "median" else "levene"
    return _without_effects(
        variance_analysis(
            distances, noise=2 * rounding_noise(arrays), method=f"{name}, distances from the {centre}", level=0.95
        )
    )


def bartlett(groups: Arms) -> Significance:
    """Return Bartlett's (1937) likelihood-ratio test of equal variances of normal values; R: bartlett.test(groups).

    Heavy tails make it reject as much as unequal variances do; `levene` is robust. The statistic is undefined for a
    constant group. Raises NotEnoughData for a group of one value.

    >>> result = bartlett([[1, 2, 3, 4], [2, 6, 10, 14]])
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (3.8765, 0.049)
    """
    arrays = finite_groups(groups)
    sizes = tuple(group.size for group in arrays)
    constant = sum(is_constant(_check_size(group, "a group")) for group in arrays)
    dof = (len(arrays) - 1,)
    if constant:
        note = f"{constant} of {len(arrays)} groups do not vary"
        return Significance(
            method="bartlett", statistic=None, p_value=None, dof=dof, n=sizes, status="degenerate", note=note
        )
    from scipy.stats import bartlett as scipy_bartlett

    # In units of the largest deviation: squares of very small or large values would leave the range of floats.
    unit = float(deviations(arrays, noise=0.0).max())
    answer = scipy_bartlett(*((group - group.mean()) / unit for group in arrays))
    return Significance(
        method="bartlett", statistic=float(answer.statistic), p_value=float(answer.pvalue), dof=dof, n=sizes
    )


def variance_ratio(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> Significance:
    """Return the F test of var(candidate) / var(baseline) = 1 for normal values, with the ratio's interval.

    R: var.test(candidate, baseline). It is undefined when either arm is constant. Raises NotEnoughData below two values in an arm.

    >>> result = variance_ratio([2, 6, 10, 14], [1, 2, 3, 4])
    >>> result.statistic, round(result.p_value, 4)
    (16.0, 0.0476)
    """
    check_share(level, "level")
    check_alternative(alternative)
    first = _check_size(finite(candidate, name="candidate values"), "the candidate")
    second = _check_size(finite(baseline, name="baseline values"), "the baseline")
    dof, n = (first.size - 1, second.size - 1), (first.size, second.size)
    if is_constant(first) or is_constant(second):
        note = "an arm does not vary, so the ratio says nothing"
        return Significance(
            method="f test of two variances", statistic=None, p_value=None, dof=dof, n=n, status="degenerate", note=note
        )
    spreads = deviations([first, second], noise=0.0)
    # Divided before squaring: the variances themselves could overflow.
    ratio = float(spreads[0] / spreads[1]) ** 2
    return Significance(
        method="f test of two variances",
        statistic=ratio,
        p_value=_ratio_p_value(ratio, dof, alternative),
        dof=dof,
        estimate=ratio,
        interval=_ratio_interval(ratio, dof, alternative, level),
        n=n,
    )


def _check_size(values: Array, what: str) -> Array:
    if values.size < 2:
        raise NotEnoughData(f"{quantity(values.size, 'value')} in {what}: a variance needs at least 2")
    return values


def _without_effects(result: Significance) -> Significance:
    """Return the result without effects: shares of the variance of distances have no use."""
    return Significance(
        method=result.method,
        statistic=result.statistic,
        p_value=result.p_value,
        dof=result.dof,
        n=result.n,
        status=result.status,
        note=result.note,
    )


def _ratio_p_value(ratio: float, dof: tuple[int, int], alternative: Alternative) -> float:
    # Both tails are computed directly: 1 minus the larger one would lose digits.
    above, below = float(fdtrc(*dof, ratio)), float(fdtr(*dof, ratio))
    if alternative == "two-sided":
        return min(1.0, 2 * min(above, below))
    return above if alternative == "greater" else below


def _ratio_interval(ratio: float, dof: tuple[int, int], alternative: Alternative, level: float) -> Interval:
    tail = tail_share(1 - level, alternative)
    # Swapping the arms inverts the quantile. Using lower-tail quantiles only keeps the digits of both tails.
    low = 0.0 if alternative == "less" else ratio * float(fdtri(dof[1], dof[0], tail))
    high = math.inf if alternative == "greater" else ratio / float(fdtri(*dof, tail))
    return Interval(low=low, high=high, level=level, method="f")
