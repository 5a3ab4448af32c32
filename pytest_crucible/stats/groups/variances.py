"""Do arms vary alike: Levene, Brown-Forsythe, Bartlett, and the F test of two variances.

They answer a question about variances. None chooses a test of means: those of this package do not need equal variances.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, fdtr, fdtrc, fdtri

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.groups.anova import Arms, deviations, rounding_noise, variance_analysis
from pytest_crucible.stats.observations import (
    Alternative,
    Array,
    check_alternative,
    check_choice,
    check_share,
    finite,
    finite_groups,
    is_constant,
)
from pytest_crucible.stats.tails import tail_share

Centre = Literal["median", "mean"]


def levene(groups: Arms, *, centre: Centre = "median") -> Significance:
    """One-way F test on the distances from each group's centre; R: car::leveneTest(v, g, center=...).

    With the median it is Brown & Forsythe's test (1974), which keeps its level for skewed scores; with the mean Levene's
    own (1960). No method of this package is chosen by it.

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
    """Likelihood-ratio test of equal variances of normal values; R: bartlett.test(groups). Bartlett 1937.

    It reacts to heavy tails as much as to variances; `levene` does not. No method of this package is chosen by it. A
    constant group leaves the statistic undefined. Raises NotEnoughData for a group of one value.

    >>> result = bartlett([[1, 2, 3, 4], [2, 6, 10, 14]])
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (3.8765, 0.049)
    """
    arrays = finite_groups(groups)
    sizes = tuple(group.size for group in arrays)
    constant = sum(is_constant(_varied(group, "a group")) for group in arrays)
    dof = (len(arrays) - 1,)
    if constant:
        note = f"{constant} of {len(arrays)} groups do not vary"
        return Significance(
            method="bartlett", statistic=None, p_value=None, dof=dof, n=sizes, status="degenerate", note=note
        )
    statistic = _bartlett(deviations(arrays, noise=0.0), np.array(sizes, dtype=np.float64) - 1)
    return Significance(
        method="bartlett", statistic=statistic, p_value=float(chdtrc(dof[0], statistic)), dof=dof, n=sizes
    )


def variance_ratio(
    x: npt.ArrayLike, y: npt.ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> Significance:
    """F test of var(x) / var(y) = 1 for normal values, with the interval of the ratio; R: var.test(x, y).

    Undefined when either arm is constant. Raises NotEnoughData below two values in an arm.

    >>> result = variance_ratio([2, 6, 10, 14], [1, 2, 3, 4])
    >>> result.statistic, round(result.p_value, 4)
    (16.0, 0.0476)
    """
    check_share(level, "level")
    check_alternative(alternative)
    first, second = _varied(finite(x, name="x values"), "x"), _varied(finite(y, name="y values"), "y")
    dof, n = (first.size - 1, second.size - 1), (first.size, second.size)
    if is_constant(first) or is_constant(second):
        note = "an arm does not vary, so the ratio says nothing"
        return Significance(
            method="f test of two variances", statistic=None, p_value=None, dof=dof, n=n, status="degenerate", note=note
        )
    spreads = deviations([first, second], noise=0.0)
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


def _varied(values: Array, what: str) -> Array:
    if values.size < 2:
        raise NotEnoughData(f"{counted(values.size, 'value')} in {what}: a variance needs at least 2")
    return values


def _without_effects(found: Significance) -> Significance:
    """Shares of the variance of distances are no effect that anybody asks for."""
    return Significance(
        method=found.method,
        statistic=found.statistic,
        p_value=found.p_value,
        dof=found.dof,
        n=found.n,
        status=found.status,
        note=found.note,
    )


def _bartlett(deviations: Array, dof: Array) -> float:
    total, k = float(dof.sum()), dof.size
    relative = deviations / deviations.max()
    spread = total * math.log(float(np.sum(dof * relative**2)) / total) - 2 * float(np.sum(dof * np.log(relative)))
    return max(0.0, spread / (1 + (float(np.sum(1 / dof)) - 1 / total) / (3 * (k - 1))))


def _ratio_p_value(ratio: float, dof: tuple[int, int], alternative: Alternative) -> float:
    above, below = float(fdtrc(*dof, ratio)), float(fdtr(*dof, ratio))
    if alternative == "two-sided":
        return min(1.0, 2 * min(above, below))
    return above if alternative == "greater" else below


def _ratio_interval(ratio: float, dof: tuple[int, int], alternative: Alternative, level: float) -> Interval:
    tail = tail_share(1 - level, alternative)
    # Swapping the arms turns a quantile into the inverse of the other one, which keeps both tails' digits.
    low = 0.0 if alternative == "less" else ratio * float(fdtri(dof[1], dof[0], tail))
    high = math.inf if alternative == "greater" else ratio / float(fdtri(*dof, tail))
    return Interval(low=low, high=high, level=level, method="f")
