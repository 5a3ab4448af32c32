"""The methods of the decision table in `choose`, brought to two shapes: one that gives an interval, one a bound.

The values of a comparison are differences, candidate - baseline, and the bounds are then those of a difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.declared import Observed
from pytest_crucible.stats.means.clustered import (
    augmented_clustered_bound,
    clustered_bound,
    clustered_interval,
    clustered_mean,
    clustered_p_value,
)
from pytest_crucible.stats.means.point_mass import point_mass_p_value
from pytest_crucible.stats.means.student import augmented_t_bound, mean_interval, paired_t, t_bound
from pytest_crucible.stats.observations import Side, is_constant, is_finite_range
from pytest_crucible.stats.proportions.clustered import korn_graubard_bound, korn_graubard_interval
from pytest_crucible.stats.proportions.one import clopper_pearson_bound, wilson_interval
from pytest_crucible.stats.proportions.paired import mcnemar_exact, tango_interval, tango_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """An interval with the p-values that belong to it."""

    interval: Interval | None
    p_value: float | None
    p_exact: float | None = None


# -- one arm: intervals to show -----------------------------------------------------------------------------------


def wilson(seen: Observed, level: float) -> Tested:
    interval = wilson_interval(int(seen.values.sum()), seen.values.size, level=level)
    return Tested(interval=interval, p_value=None)


def korn_graubard(seen: Observed, level: float) -> Tested:
    return Tested(interval=korn_graubard_interval(seen.values, seen.labels, level=level), p_value=None)


def student(seen: Observed, level: float) -> Tested:
    return Tested(interval=mean_interval(seen.values, level=level, bounds=seen.bounds), p_value=None)


def cr2(seen: Observed, level: float) -> Tested:
    mean = clustered_mean(seen.values, seen.labels)
    return Tested(interval=clustered_interval(mean, level=level, bounds=seen.bounds), p_value=None)


# -- pairs: intervals with p-values -------------------------------------------------------------------------------


def tango_test(seen: Observed, level: float) -> Tested:
    gained, lost = _discordant(seen)
    interval = tango_interval(gained, lost, seen.values.size, level=level)
    p_value = tango_p_value(gained, lost, seen.values.size)
    return Tested(interval=interval, p_value=p_value, p_exact=mcnemar_exact(gained, lost))


def paired_t_test(seen: Observed, level: float) -> Tested:
    result = paired_t(seen.values, level=level, bounds=seen.bounds)
    if is_constant(seen.values):
        return _constant(seen, result.difference, seen.values.size, result.interval, result.p_value, level)
    return Tested(interval=result.interval, p_value=result.p_value)


def cr2_test(seen: Observed, level: float) -> Tested:
    mean = clustered_mean(seen.values, seen.labels)
    interval, p_value = clustered_interval(mean, level=level, bounds=seen.bounds), clustered_p_value(mean)
    if mean.se == 0:
        return _constant(seen, mean.estimate, mean.clusters, interval, p_value, level)
    return Tested(interval=interval, p_value=p_value)


def _constant(
    seen: Observed, difference: float, n: int, interval: Interval | None, flipped: float, level: float
) -> Tested:
    """Equal differences: the sign-flip p knows nothing of the bounds and can contradict the point-mass interval.

    So the p-value is the larger of the sign-flip and the point-mass one, and an interval that excludes 0 although the
    p-value is not small is extended to 0. Both only become more careful; the sign-flip p remains as `p_exact`.
    """
    if interval is None or not is_finite_range(seen.bounds):
        return Tested(interval=None, p_value=flipped, p_exact=flipped)
    p_value = max(flipped, point_mass_p_value(difference, n, bounds=seen.bounds))
    if p_value >= 1 - level:
        low, high = min(interval.low, 0.0), max(interval.high, 0.0)
        interval = Interval(low=low, high=high, level=level, method=interval.method)
    return Tested(interval=interval, p_value=p_value, p_exact=flipped)


def _discordant(seen: Observed) -> tuple[int, int]:
    if seen.values.size < 2:
        raise NotEnoughData(f"{seen.values.size} pair(s): a comparison needs at least 2")
    return int((seen.values > 0).sum()), int((seen.values < 0).sum())


# -- one arm and pairs: one-sided bounds to decide by -------------------------------------------------------------


def clopper_pearson_side(seen: Observed, alpha: float, side: Side) -> float:
    return clopper_pearson_bound(int(seen.values.sum()), seen.values.size, alpha=alpha, side=side)


def korn_graubard_side(seen: Observed, alpha: float, side: Side) -> float:
    return korn_graubard_bound(seen.values, seen.labels, alpha=alpha, side=side)


def augmented_t_side(seen: Observed, alpha: float, side: Side) -> float:
    return augmented_t_bound(seen.values, bounds=seen.bounds, alpha=alpha, side=side)


def augmented_cr2_side(seen: Observed, alpha: float, side: Side) -> float:
    return augmented_clustered_bound(seen.values, seen.labels, bounds=seen.bounds, alpha=alpha, side=side)


def student_side(seen: Observed, alpha: float, side: Side) -> float | None:
    return t_bound(seen.values, alpha=alpha, side=side)


def cr2_side(seen: Observed, alpha: float, side: Side) -> float | None:
    return clustered_bound(seen.values, seen.labels, alpha=alpha, side=side)


def tango_side(seen: Observed, alpha: float, side: Side) -> float:
    gained, lost = _discordant(seen)
    interval = tango_interval(gained, lost, seen.values.size, level=1 - 2 * alpha)
    return interval.low if side == "lower" else interval.high
