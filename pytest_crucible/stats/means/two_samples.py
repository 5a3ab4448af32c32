"""The difference of two independent means: Welch's t and Student's t.

Welch is the default for independent arms. The variances are not tested first, because the data would then choose the
method. Both tests allow one constant arm; for two constant arms only a permutation p-value exists.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, Array, check_share, is_constant
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.moments import standard_error, two_arms, welch_se_and_dof
from pytest_crucible.stats.means.point_mass import constant_arms_p_value, distance
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import t_interval, t_p_value


def welch_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return Welch's t test of two independent arms with their own variances; R: t.test(candidate, baseline).

    When neither arm varies the status is "degenerate": p is 1 for equal arms and the exact permutation p,
    2 / C(n1 + n2, n1), for different ones, without an interval. Raises NotEnoughData below two values in
    either.

    >>> result = welch_t([0.9, 0.7], [0.4, 0.5])
    >>> round(result.statistic, 4), round(result.dof[0], 4), round(result.p_value, 4)
    (3.1305, 1.4706, 0.129)
    """
    check_share(level, "level")
    arms = two_arms(candidate, baseline)
    if is_constant(arms[0]) and is_constant(arms[1]):
        return without_variation("welch t", arms, alternative)
    first, second = ((_arm_error(arm), float(arm.size - 1)) for arm in arms)
    se, dof = welch_se_and_dof(first, second)
    return difference_of_means("welch t", arms, se, dof, alternative, level)


def student_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return Student's t test of two independent arms with one pooled variance; R: t.test(..., var.equal=TRUE).

    Use it only for variances that are equal by design, otherwise `welch_t`. Constant arms: see `welch_t`. Raises
    NotEnoughData for an empty arm and below three values in all.

    >>> result = student_t([0.9, 0.7], [0.4, 0.5])
    >>> result.dof, round(result.p_value, 4)
    ((2.0,), 0.0887)
    """
    check_share(level, "level")
    arms = two_arms(candidate, baseline, fewest=1)
    n, dof = (arms[0].size, arms[1].size), arms[0].size + arms[1].size - 2
    if dof < 1:
        raise NotEnoughData(f"{n[0]} and {n[1]} values: a pooled variance needs at least 3 in all")
    if is_constant(arms[0]) and is_constant(arms[1]):
        return without_variation("student t", arms, alternative)
    pooled = np.concatenate([arm - arm.mean() for arm in arms])
    # Scaled before squaring: very small residuals would square to 0.
    size = float(np.abs(pooled).max())
    deviation = size * math.sqrt(float(np.square(pooled / size).sum()) / dof)
    return difference_of_means("student t", arms, deviation * math.sqrt(1 / n[0] + 1 / n[1]), dof, alternative, level)


def difference_of_means(
    method: str, arms: tuple[Array, Array], se: float, dof: float, alternative: Alternative, level: float
) -> Significance:
    """Return the t test of a difference of means, from its standard error and degrees of freedom.

    >>> arms = np.array([0.9, 0.7]), np.array([0.4, 0.5])
    >>> round(difference_of_means("t", arms, 0.1, 2.0, "two-sided", 0.95).statistic, 4)
    3.5
    """
    estimate = float(arms[0].mean() - arms[1].mean())
    return Significance(
        method=method,
        statistic=estimate / se,
        p_value=t_p_value(estimate / se, dof, alternative),
        dof=(float(dof),),
        estimate=estimate,
        interval=t_interval(estimate, se, dof, level=level, method=method, alternative=alternative),
        se=se,
        n=(arms[0].size, arms[1].size),
    )


def without_variation(method: str, arms: tuple[Array, Array], alternative: Alternative) -> Significance:
    """Return the result for two constant arms: the exact permutation p-value, and no interval.

    >>> without_variation("t", (np.ones(4), np.zeros(5)), "two-sided").status
    'degenerate'
    """
    estimate, n = distance(float(arms[0][0]), float(arms[1][0])), (arms[0].size, arms[1].size)
    return Significance(
        method=method,
        statistic=None,
        p_value=constant_arms_p_value(estimate, n, alternative),
        estimate=estimate,
        n=n,
        status="degenerate",
        note="neither arm varies: the p-value is the permutation one, and an interval does not exist",
    )


def _arm_error(arm: Array) -> float:
    return 0.0 if is_constant(arm) else standard_error(arm)
