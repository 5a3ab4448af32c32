"""Methods for pairs: candidate - baseline with interval and p-value, and one-sided bounds for margins.

One-sided alternatives give intervals of which one end is infinite.
"""

from __future__ import annotations

import math

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import Alternative, Side, is_constant, is_finite_range
from pytest_crucible.stats.inputs import Arms, Observed
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean, clustered_p_value
from pytest_crucible.stats.means.point_mass import point_mass_p_value
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.methods import one_arm
from pytest_crucible.stats.proportions.paired import mcnemar_exact, tango_interval, tango_p_value, tango_statistic
from pytest_crucible.stats.results import Significance


def tango_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    gained, lost = _discordant(observed)
    n, two_sided = observed.values.size, alternative == "two-sided"
    # Each end of a two-sided interval at 2 level - 1 is a one-sided bound at `level`.
    interval = tango_interval(gained, lost, n, level=level if two_sided else 2 * level - 1)
    low = -math.inf if alternative == "less" else interval.low
    high = math.inf if alternative == "greater" else interval.high
    return Significance(
        method="tango",
        statistic=tango_statistic(gained, lost, n, 0.0),
        interval=Interval(low=low, high=high, level=level, method="tango"),
        p_value=tango_p_value(gained, lost, n, alternative=alternative),
        p_exact=mcnemar_exact(gained, lost) if two_sided else None,
        estimate=observed.mean,
    )


def paired_t_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    result = paired_t(observed.values, alternative=alternative, level=level, bounds=observed.bounds)
    if is_constant(observed.values):
        flipped = 1.0 if result.p_value is None else result.p_value
        return _constant(observed, float(observed.values[0]), observed.values.size, result.interval, flipped, level)
    return result


def cr2_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    mean = clustered_mean(observed.values, observed.labels)
    interval = clustered_interval(mean, level=level, bounds=observed.bounds, alternative=alternative)
    p_value = clustered_p_value(mean, alternative=alternative)
    if mean.se == 0:
        return _constant(observed, mean.estimate, mean.clusters, interval, p_value, level)
    return Significance(
        method="cr2",
        statistic=mean.estimate / mean.se,
        dof=(mean.dof,),
        interval=interval,
        p_value=p_value,
        estimate=mean.estimate,
        se=mean.se,
    )


def _constant(
    observed: Observed, difference: float, n: int, interval: Interval | None, flipped: float, level: float
) -> Significance:
    """Return the result for equal differences, with an interval and a p-value that agree.

    The sign-flip p-value does not use the bounds and can contradict the point-mass interval. So the p-value is the larger
    of the sign-flip and the point-mass one, and an interval that excludes 0 although p is not small is extended to 0.
    Both become more conservative only; the sign-flip p-value remains as `p_exact`. Each end of the interval alone errs in
    up to 1 - level, so it also serves one-sided alternatives.
    """
    p_value = flipped
    if interval is not None and is_finite_range(observed.bounds):
        # The larger of the two valid p-values is valid, and agrees with the interval below.
        p_value = max(flipped, point_mass_p_value(difference, n, bounds=observed.bounds))
        if p_value >= 1 - level:
            low, high = min(interval.low, 0.0), max(interval.high, 0.0)
            interval = Interval(low=low, high=high, level=level, method=interval.method)
    return Significance(
        method="point mass",
        statistic=None,
        interval=interval,
        p_value=p_value,
        p_exact=flipped,
        estimate=difference,
        status="degenerate",
    )


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def tango_side(arms: Arms, alpha: float, side: Side) -> float:
    observed = differences(arms)
    gained, lost = _discordant(observed)
    interval = tango_interval(gained, lost, observed.values.size, level=1 - 2 * alpha)
    return interval.low if side == "lower" else interval.high


def augmented_t_side(arms: Arms, alpha: float, side: Side) -> float:
    return one_arm.augmented_t_side(differences(arms), alpha, side)


def augmented_cr2_side(arms: Arms, alpha: float, side: Side) -> float:
    return one_arm.augmented_cr2_side(differences(arms), alpha, side)


def paired_t_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return one_arm.student_side(differences(arms), alpha, side)


def cr2_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return one_arm.cr2_side(differences(arms), alpha, side)


def betting_side(arms: Arms, alpha: float, side: Side) -> float:
    return one_arm.betting_side(differences(arms), alpha, side)


def differences(arms: Arms) -> Observed:
    assert arms.differences is not None, "the table gives paired methods to pairs only"
    return arms.differences


def _discordant(observed: Observed) -> tuple[int, int]:
    # One pair has a Tango interval, but it is nearly [-1, 1] and would only look like a result.
    if observed.values.size < 2:
        raise NotEnoughData(f"{quantity(observed.values.size, 'pair')}: a comparison needs at least 2")
    return int((observed.values > 0).sum()), int((observed.values < 0).sum())
