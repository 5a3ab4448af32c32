"""Student's and Welch's t: one mean, paired differences, and two independent arms.

Welch is the default for independent arms. The variances are not tested first, because the data would then choose the method.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Labels,
    Range,
    Side,
    check_share,
    check_tail,
    difference,
    is_constant,
    is_finite_range,
)
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean
from pytest_crucible.stats.means.moments import (
    Spread,
    check_enough,
    check_inside,
    constant_arms_p_value,
    distance,
    equal_differences_p_value,
    point_mass_interval,
    standard_error,
    t_end,
    t_interval,
    t_p_value,
    two_arms,
    welch_se_and_dof,
)
from pytest_crucible.stats.results import Significance


def one_sample_t(
    values: npt.ArrayLike,
    *,
    mu: float = 0.0,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Return Student's t test of "the mean is mu"; R: t.test(values, mu=mu).

    For equal values the status is "degenerate": p is 1 at mu and the exact sign-flip p elsewhere (2^(1-n), two-sided);
    the interval is the point-mass one when `bounds` are finite, and None otherwise. Raises NotEnoughData below two
    values, ValueError when equal values lie outside the bounds.

    >>> result = one_sample_t([0.5, 0.75])
    >>> round(result.statistic, 6), round(result.p_value, 6), round(result.interval.low, 4)
    (5.0, 0.125666, -0.9633)
    """
    return t_test_of(
        Spread.of(check_enough(values)), "one-sample t", mu=mu, alternative=alternative, level=level, bounds=bounds
    )


def paired_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Return the paired t test of candidate - baseline; R: t.test(candidate, baseline, paired=TRUE).

    With one argument its values are the differences. `bounds` are those of the arguments: of the scores with two arms, of
    the differences with one. Equal differences: see `one_sample_t`. Raises ValueError for arms of unequal length and for
    two empty ones, NotEnoughData below two pairs.

    >>> result = paired_t([0.9, 0.7], [0.4, 0.5])
    >>> round(result.estimate, 4), round(result.p_value, 6)
    (0.35, 0.257762)
    """
    if baseline is None:
        differences, ends = check_enough(candidate), bounds
    else:
        differences = check_enough(paired_differences(candidate, baseline))
        ends = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return t_test_of(Spread.of(differences), "paired t", alternative=alternative, level=level, bounds=ends)


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95, bounds: Range | None = None) -> Interval | None:
    """Return Student's t interval for a mean; R: t.test(values)$conf.int. Raises NotEnoughData below two values.

    Equal values: the point-mass interval within finite `bounds`, and None without them.

    >>> interval = mean_interval([0.5, 0.75])
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.9633, 2.2133)
    """
    return one_sample_t(values, level=level, bounds=bounds).interval


def unit_mean_interval(values: Array, clusters: Labels | None, level: float) -> tuple[Interval | None, int | None]:
    """Return the interval for a mean of values in [0, 1], Student's or CR2's, cut to them, and the number of clusters."""
    if clusters is None:
        interval, count = mean_interval(values, level=level, bounds=(0.0, 1.0)), None
    else:
        mean = clustered_mean(values, clusters)
        interval, count = clustered_interval(mean, level=level, bounds=(0.0, 1.0)), mean.clusters
    return interval and replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0)), count


def t_bound(values: npt.ArrayLike, *, alpha: float, side: Side) -> float | None:
    """Return the one-sided t bound for unbounded values; R: t.test(values, alternative=..., conf.level=1-alpha).

    None when the values do not vary: without bounds, unobserved values could be anything.

    >>> round(t_bound([1.0, 2.0, 3.0, 4.0], alpha=0.05, side="lower"), 4)
    0.9809
    """
    check_tail(alpha, side)
    array = check_enough(values)
    if is_constant(array):
        return None
    return t_end(float(array.mean()), standard_error(array), array.size - 1, alpha=alpha, side=side)


def paired_differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    """Return candidate - baseline without rounding errors. Raises ValueError for unequal lengths and without pairs."""
    differences = difference(candidate, baseline)
    if not differences.size:
        raise ValueError("a paired comparison needs pairs, not 0 of them")
    return differences


def t_test_of(
    spread: Spread,
    method: str,
    *,
    mu: float = 0.0,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Return Student's t test of at least two values."""
    check_share(level, "level")
    if not np.isfinite(mu):
        raise ValueError(f"mu must be a finite number, not {mu!r}")
    # Equal values would give a standard error of rounding size and an absurd t.
    if spread.is_constant:
        return _equal(spread, mu, method, alternative, level, bounds)
    mean, se, dof = spread.mean, spread.error, spread.n - 1
    statistic = (mean - mu) / se
    return Significance(
        method=method,
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        dof=(float(dof),),
        estimate=mean,
        interval=t_interval(mean, se, dof, level=level, method="t", alternative=alternative),
        se=se,
        n=(spread.n,),
    )


def _equal(
    spread: Spread, mu: float, method: str, alternative: Alternative, level: float, bounds: Range | None
) -> Significance:
    value, n = spread.low, spread.n
    if bounds is not None and is_finite_range(bounds):
        check_inside(np.array([spread.low, spread.high]), bounds)
    return Significance(
        method=method,
        statistic=None,
        p_value=equal_differences_p_value(distance(value, mu), n, alternative),
        estimate=value,
        interval=point_mass_interval(value, n, bounds=bounds, level=level, alternative=alternative),
        n=(n,),
        status="degenerate",
        note=f"all {n} values are equal: the p-value is the sign-flip one, the interval that of a point mass",
    )


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
    first, second = ((0.0 if is_constant(arm) else standard_error(arm), float(arm.size - 1)) for arm in arms)
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
