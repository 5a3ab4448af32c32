"""All pairs of independent arms at once: Tukey's test, and Games and Howell's for unequal variances.

Neither needs a significant omnibus test: the studentized range alone keeps the family-wise error rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Array, check_share, finite_groups
from pytest_crucible.stats.groups.anova import Arms, deviations, rounding_noise
from pytest_crucible.stats.groups.pairwise import ContrastResult, all_pairs
from pytest_crucible.stats.groups.separation import separation_p_value
from pytest_crucible.stats.groups.studentized import studentized_range_critical, studentized_range_tail
from pytest_crucible.stats.tails import t_p_value


def tukey_hsd(groups: Arms, *, level: float = 0.95) -> tuple[ContrastResult, ...]:
    """Return all differences of means with simultaneous intervals, under equal variances; R: TukeyHSD(aov(v ~ g)).

    Unequal sizes have Kramer's standard error. With two groups it is Student's t test. `games_howell` does not need equal
    variances and is the better choice unless the design makes them equal. The statistic is t = difference / se. When no
    group varies, p is the permutation one times the number of pairs. Raises NotEnoughData unless some group has two
    values.

    >>> pair = tukey_hsd([[1, 2, 3], [2, 3, 4], [5, 6, 7]])[1]
    >>> pair.first, pair.second, pair.difference, round(pair.p_adjusted, 5), round(pair.interval.high, 4)
    (0, 2, -4.0, 0.00649, -1.4948)
    """
    check_share(level, "level")
    arrays = finite_groups(groups)
    dof = float(sum(group.size for group in arrays) - len(arrays))
    if dof == 0:
        raise NotEnoughData(f"{len(arrays)} groups of 1 value: a variance inside groups needs a group of at least 2")
    noise = rounding_noise(arrays)
    pooled = pooled_deviation(arrays, noise=noise)
    spreads = [pooled] * len(arrays)
    return tuple(
        _contrast(arrays, pair, _standard_error(arrays, spreads, pair), dof, "tukey", level, noise)
        for pair in all_pairs(len(arrays))
    )


def games_howell(groups: Arms, *, level: float = 0.95) -> tuple[ContrastResult, ...]:
    """Return all differences of means with simultaneous intervals, for any variances; R: rstatix::games_howell_test.

    Games & Howell 1976. Each pair has Welch's standard error and degrees of freedom, and the p-value of the studentized
    range; with two groups it is Welch's t test. The statistic is t = difference / se. A pair in which neither group varies
    has no statistic, and its p is the permutation one times the number of pairs. Raises NotEnoughData for a group of one
    value.

    >>> pair = games_howell([[1, 2, 3], [2, 4, 6], [5, 9, 13]])[1]
    >>> pair.difference, round(pair.dof, 4), round(pair.p_adjusted, 4)
    (-7.0, 2.249, 0.1562)
    """
    check_share(level, "level")
    arrays = finite_groups(groups)
    smallest = min(group.size for group in arrays)
    if smallest < 2:
        raise NotEnoughData(f"a group of {smallest} value has no variance: each needs at least 2")
    noise = rounding_noise(arrays)
    spreads: list[float] = deviations(arrays, noise=noise).tolist()
    return tuple(
        _contrast(
            arrays,
            pair,
            _standard_error(arrays, spreads, pair),
            _satterthwaite(arrays, spreads, pair),
            "games-howell",
            level,
            noise,
        )
        for pair in all_pairs(len(arrays))
    )


def pooled_deviation(groups: Sequence[Array], *, noise: float) -> float:
    """Return the standard deviation inside groups, pooled over all; 0 when none varies by more than `noise`.

    >>> pooled_deviation([np.array([1.0, 3.0]), np.array([5.0, 7.0])], noise=0.0) == 2**0.5
    True
    """
    if all(np.ptp(group) <= noise for group in groups):
        return 0.0
    # Residuals first: pooling the variances of groups would square very small deviations to 0.
    residuals = np.concatenate([group - group.mean() for group in groups])
    size = float(np.abs(residuals).max())
    return size * math.sqrt(float(np.sum((residuals / size) ** 2)) / (residuals.size - len(groups)))


def without_variance(groups: Sequence[Array], pair: tuple[int, int], *, family: int, noise: float) -> ContrastResult:
    """Return the contrast of two constant arms: p is 1 for equal arms, else the permutation one times the family size.

    >>> round(without_variance([np.ones(4), np.zeros(5)], (0, 1), family=3, noise=0.0).p_adjusted, 6)
    0.047619
    """
    first, second = groups[pair[0]], groups[pair[1]]
    p_value = separation_p_value([first, second], noise=noise)
    return ContrastResult(
        first=pair[0],
        second=pair[1],
        difference=0.0 if p_value == 1 else float(first.mean() - second.mean()),
        statistic=None,
        p_value=p_value,
        p_adjusted=min(1.0, family * p_value),
        status="degenerate",
        note="nothing varies: p is the permutation one, and no interval exists",
    )


def _contrast(
    groups: Sequence[Array],
    pair: tuple[int, int],
    se: float,
    dof: float,
    method: str,
    level: float,
    noise: float,
) -> ContrastResult:
    arms = len(groups)
    if se == 0:
        return without_variance(groups, pair, family=arms * (arms - 1) // 2, noise=noise)
    difference = float(groups[pair[0]].mean() - groups[pair[1]].mean())
    # The range is in standard errors of one mean; a difference has sqrt(2) times that error.
    half = studentized_range_critical(1 - level, arms, dof) * se / math.sqrt(2)
    return ContrastResult(
        first=pair[0],
        second=pair[1],
        difference=difference,
        statistic=difference / se,
        p_value=t_p_value(difference / se, dof),
        p_adjusted=studentized_range_tail(math.sqrt(2) * abs(difference) / se, arms, dof),
        dof=dof,
        se=se,
        interval=Interval(low=difference - half, high=difference + half, level=level, method=method),
    )


def _standard_error(groups: Sequence[Array], spreads: Sequence[float], pair: tuple[int, int]) -> float:
    # hypot neither overflows nor underflows where the squares would.
    return math.hypot(*(spreads[arm] / math.sqrt(groups[arm].size) for arm in pair))


def _satterthwaite(groups: Sequence[Array], spreads: Sequence[float], pair: tuple[int, int]) -> float:
    """Return Welch's degrees of freedom; 0, which is not used, when neither group varies."""
    se = _standard_error(groups, spreads, pair)
    if se == 0:
        return 0.0
    shares = [(spreads[arm] / se) ** 2 / groups[arm].size for arm in pair]
    return 1 / sum(share**2 / (groups[arm].size - 1) for share, arm in zip(shares, pair, strict=True))
