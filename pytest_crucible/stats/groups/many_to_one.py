"""Several candidates against one baseline: Dunnett's test.

The differences share the baseline and the variance estimate, so their statistics are correlated. Dunnett's test uses
that correlation and has more power than Bonferroni's or Holm's correction. scipy.stats.dunnett integrates by random
draws; here the integral is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, Array, check_alternative, check_share, finite_groups
from pytest_crucible.stats.groups.anova import Arms, rounding_noise
from pytest_crucible.stats.groups.pairwise import ContrastResult
from pytest_crucible.stats.groups.posthoc import pooled_deviation, without_variance
from pytest_crucible.stats.groups.studentized import average_over_scale, critical_value
from pytest_crucible.stats.tails import t_p_value

# The largest double below 1: log1p(-1) would be minus infinity.
_ALMOST_ONE = 1 - 2.0**-53
_LARGEST_LIKELY = 40.0
"""The normal tail beyond this limit is 0 in double precision."""


def dunnett(
    groups: Arms, *, baseline: int = 0, alternative: Alternative = "two-sided", level: float = 0.95
) -> tuple[ContrastResult, ...]:
    """Return candidate - baseline for every other group, with simultaneous intervals, under equal variances.

    Dunnett 1955; R: multcomp::glht(aov(v ~ g), mcp(g="Dunnett")), whose random p-values converge to these: the
    multivariate t is integrated to about 1e-10. With two groups it is Student's t test. No omnibus test is needed first.
    Raises ValueError for a baseline that does not exist and NotEnoughData unless some group has two values.

    >>> pair = dunnett([[1, 2, 3], [2, 3, 4], [5, 6, 7]])[1]
    >>> pair.first, pair.second, pair.difference, round(pair.p_adjusted, 5), round(pair.interval.low, 4)
    (2, 0, 4.0, 0.00487, 1.6626)
    """
    check_share(level, "level")
    check_alternative(alternative)
    arrays = finite_groups(groups)
    if not 0 <= baseline < len(arrays):
        raise ValueError(f"baseline must be the position of one of {len(arrays)} groups, from 0, not {baseline!r}")
    dof = float(sum(group.size for group in arrays) - len(arrays))
    if dof == 0:
        raise NotEnoughData(f"{len(arrays)} groups of 1 value: a variance inside groups needs a group of at least 2")
    noise = rounding_noise(arrays)
    deviation = pooled_deviation(arrays, noise=noise)
    candidates = [arm for arm in range(len(arrays)) if arm != baseline]
    if deviation == 0:
        return tuple(
            without_variance(arrays, (arm, baseline), family=len(candidates), noise=noise) for arm in candidates
        )
    loadings = np.array(
        [math.sqrt(arrays[arm].size / (arrays[arm].size + arrays[baseline].size)) for arm in candidates]
    )
    critical = critical_value(lambda t: many_t_tail(t, loadings, dof, two_sided=alternative == "two-sided"), 1 - level)
    return tuple(
        _contrast(arrays, (arm, baseline), deviation, dof, loadings, critical, alternative, level) for arm in candidates
    )


def many_t_tail(t: float, loadings: Array, dof: float, *, two_sided: bool) -> float:
    """Return P(largest of several t statistics > t); two of them have the product of their loadings as correlation.

    Two-sided it is the largest absolute value. R: 1 - mvtnorm::pmvt(lower, upper, df, corr).

    >>> round(many_t_tail(2.345597, np.full(1, 0.5), 24, two_sided=True), 6)
    0.027594
    """
    if two_sided and t <= 0:
        return 1.0
    return min(1.0, average_over_scale(lambda scale: _any_beyond(t * scale, loadings, two_sided), t, dof))


def _contrast(
    groups: Sequence[Array],
    pair: tuple[int, int],
    deviation: float,
    dof: float,
    loadings: Array,
    critical: float,
    alternative: Alternative,
    level: float,
) -> ContrastResult:
    first, second = (groups[arm] for arm in pair)
    difference = float(first.mean() - second.mean())
    se = deviation * math.sqrt(1 / first.size + 1 / second.size)
    statistic = difference / se
    two_sided = alternative == "two-sided"
    towards = abs(statistic) if two_sided else -statistic if alternative == "less" else statistic
    return ContrastResult(
        first=pair[0],
        second=pair[1],
        difference=difference,
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        p_adjusted=many_t_tail(towards, loadings, dof, two_sided=two_sided),
        dof=dof,
        se=se,
        interval=Interval(
            low=-math.inf if alternative == "less" else difference - critical * se,
            high=math.inf if alternative == "greater" else difference + critical * se,
            level=level,
            method="dunnett",
        ),
    )


def _any_beyond(limits: Array, loadings: Array, two_sided: bool) -> Array:
    """Return P(any T > limit) for normal T_j = loading_j z + sqrt(1 - loading_j^2) own_j.

    Given the baseline's part z, the T_j are independent and the probability is a product. Two-sided, z and -z contribute
    equally: the grid begins at 0, and its sum counts twice.
    """
    baseline, step = _grid(limits, loadings, lowest=0.0 if two_sided else -math.inf)
    log_kept = np.zeros_like(baseline)
    for loading, arms in zip(*np.unique(loadings, return_counts=True), strict=True):
        own = math.sqrt(1 - loading * loading)
        beyond = ndtr((loading * baseline - limits[:, None]) / own)
        if two_sided:
            beyond += ndtr((-loading * baseline - limits[:, None]) / own)
        # Candidates of equal size have equal loadings and are counted together.
        log_kept += arms * np.log1p(-np.minimum(beyond, _ALMOST_ONE))
    density = np.exp(-0.5 * baseline * baseline) * (math.sqrt(2 / math.pi) if two_sided else math.sqrt(0.5 / math.pi))
    # The trapezoidal rule halves the weight of an end; the density at the other end is 0.
    density[:, 0] /= 2
    return np.asarray(step * np.sum(density * -np.expm1(log_kept), axis=1), dtype=np.float64)


def _grid(limits: Array, loadings: Array, *, lowest: float) -> tuple[Array, Array]:
    """Return (z, step) for each limit: 9 deviations around the likely baseline part when a statistic passes the limit."""
    least, most = float(loadings.min()), float(loadings.max())
    reach = np.maximum(limits, 0.0)
    low = np.maximum(least * reach - 9, lowest)
    width = most * reach + 9 - low
    usual = min(float(reach.max()), _LARGEST_LIKELY)
    # The integrand is narrower for larger loadings: a quarter of its own deviation is enough for 1e-10.
    steps = math.ceil((18 + (most - least) * usual) / (0.25 * math.sqrt(1 - most * most)))
    step = width / steps
    return low[:, None] + step[:, None] * np.arange(steps + 1), step
