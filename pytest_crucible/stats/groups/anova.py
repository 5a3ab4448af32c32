"""One-way analysis of variance: whether the means of independent arms differ, and by how much of the variance.

The omnibus test names no arm and gates nothing: test planned contrasts against the baseline in any case.
`welch_anova` is the better test unless the arms' variances are equal by design.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import ROUNDING, Array, check_share, finite_groups
from pytest_crucible.stats.groups.noncentral_f import cohens_f_interval, eta_squared_interval
from pytest_crucible.stats.groups.separation import separation_p_value
from pytest_crucible.stats.results import Effect, Significance

Arms = Sequence[npt.ArrayLike]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsOfSquares:
    """Sums of squares: of the group means around the grand mean, and of the values around their group's mean."""

    between: float
    within: float


def sums_of_squares(groups: Arms) -> SumsOfSquares:
    """Return the two parts of the sum of squares of all values; R: anova(lm(v ~ g))$"Sum Sq".

    >>> sums_of_squares([[1, 3], [5, 7]])
    SumsOfSquares(between=16.0, within=4.0)
    """
    between, within, size = _split(finite_groups(groups))
    return SumsOfSquares(between=between * size * size, within=within * size * size)


def anova_oneway(groups: Arms, *, level: float = 0.95) -> Significance:
    """Return the F test of "all means are equal", for independent groups of equal variance; R: anova(lm(v ~ g)).

    Effects: eta squared and Cohen's f, and omega and epsilon squared, which are corrected for chance and may be negative.
    The three shares estimate the same share of the population and have one interval (Steiger 2004). Intervals are
    two-sided; level 0.90 agrees with the test at 0.05. When every group is constant, F does not exist and p is the
    permutation one. Raises NotEnoughData unless some group has two values.

    >>> result = anova_oneway([[1, 2, 3], [2, 3, 4], [5, 6, 7]])
    >>> result.statistic, result.dof, round(result.p_value, 6)
    (13.0, (2, 6), 0.006592)
    """
    check_share(level, "level")
    arrays = finite_groups(groups)
    return variance_analysis(arrays, noise=rounding_noise(arrays), method="one-way anova", level=level)


def rounding_noise(groups: Sequence[Array]) -> float:
    """Return the largest difference between values of these groups that rounding can produce."""
    return ROUNDING * max(float(np.abs(group).max()) for group in groups)


def deviations(groups: Sequence[Array], *, noise: float) -> Array:
    """Return the standard deviation of each group, 0 for one that varies by no more than `noise`.

    >>> deviations([np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.3])], noise=0.0)
    array([2., 0.])
    """
    return np.array([0.0 if np.ptp(group) <= noise else _deviation(group) for group in groups])


def variance_analysis(groups: Sequence[Array], *, noise: float, method: str, level: float) -> Significance:
    """Return the F test for checked groups; variation up to `noise` counts as none.

    >>> arrays = [np.array([1.0, 2.0]), np.array([2.0, 4.0])]
    >>> variance_analysis(arrays, noise=0.0, method="one-way anova", level=0.95).dof
    (1, 2)
    """
    n, dof = _sizes(groups)
    if all(np.ptp(group) <= noise for group in groups):
        return _without_variance(groups, noise, method, dof)
    between, within, _ = _split(groups)
    statistic = (between / dof[0]) / (within / dof[1])
    # One interval for all three shares: they estimate the same population value.
    share = eta_squared_interval(statistic, dof, n, level=level)
    return Significance(
        method=method,
        statistic=statistic,
        p_value=float(fdtrc(*dof, statistic)),
        dof=dof,
        n=tuple(group.size for group in groups),
        effects=(
            Effect(name="eta squared", value=between / (between + within), interval=share),
            *_chance_corrected_effects(between, within, dof, share),
            Effect(
                name="cohens f",
                value=math.sqrt(between / within),
                interval=cohens_f_interval(statistic, dof, n, level=level),
            ),
        ),
    )


def _deviation(group: Array) -> float:
    centred = group - group.mean()
    size = float(np.abs(centred).max())
    return size * math.sqrt(float(np.sum((centred / size) ** 2)) / (group.size - 1))


def _sizes(groups: Sequence[Array]) -> tuple[int, tuple[int, int]]:
    n = sum(group.size for group in groups)
    if n <= len(groups):
        raise NotEnoughData(f"{n} values in {len(groups)} groups: a variance inside groups needs a group of at least 2")
    return n, (len(groups) - 1, n - len(groups))


def _split(groups: Sequence[Array]) -> tuple[float, float, float]:
    """Return (between, within, size): sums of squares in units of size squared, so that tiny values do not underflow."""
    every = np.concatenate(groups)
    # Centred first: sums of squares of values far from 0 would cancel.
    centre = float(every.mean())
    size = float(np.abs(every - centre).max()) or 1.0
    scaled = [(group - centre) / size for group in groups]
    means = [float(group.mean()) for group in scaled]
    grand = float(np.concatenate(scaled).mean())
    between = math.fsum(group.size * (mean - grand) ** 2 for group, mean in zip(scaled, means, strict=True))
    within = math.fsum(float(np.sum((group - mean) ** 2)) for group, mean in zip(scaled, means, strict=True))
    return between, within, size


def _chance_corrected_effects(
    between: float, within: float, dof: tuple[int, int], share: Interval
) -> tuple[Effect, Effect]:
    """Return omega and epsilon squared. They estimate the same share as eta squared, so they have its interval."""
    # The part of the sum of squares between groups that chance alone produces.
    chance, total = dof[0] * within / dof[1], between + within
    return (
        Effect(name="omega squared", value=(between - chance) / (total + within / dof[1]), interval=share),
        Effect(name="epsilon squared", value=(between - chance) / total, interval=share),
    )


def _without_variance(groups: Sequence[Array], noise: float, method: str, dof: tuple[int, int]) -> Significance:
    p_value = separation_p_value(groups, noise=noise)
    share = None if p_value == 1 else 1.0
    note = (
        "all values are equal" if share is None else "no group varies: p is the permutation one, and F does not exist"
    )
    names = ("eta squared", "omega squared", "epsilon squared")
    return Significance(
        method=method,
        statistic=None,
        p_value=p_value,
        dof=dof,
        n=tuple(group.size for group in groups),
        effects=(
            *(Effect(name=name, value=share, note=note) for name in names),
            Effect(name="cohens f", value=None, note=note),
        ),
        status="degenerate",
        note=note,
    )
