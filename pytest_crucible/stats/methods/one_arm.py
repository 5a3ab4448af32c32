"""One arm: intervals to show, and one-sided bounds to decide by. Bounds of single differences are these, too."""

from __future__ import annotations

from pytest_crucible.records import Interval
from pytest_crucible.stats.declared import Observed
from pytest_crucible.stats.means.augmented import augmented_t_bound
from pytest_crucible.stats.means.clustered import (
    augmented_clustered_bound,
    clustered_bound,
    clustered_interval,
    clustered_mean,
)
from pytest_crucible.stats.means.student import mean_interval, t_bound
from pytest_crucible.stats.observations import Side
from pytest_crucible.stats.proportions.clustered import korn_graubard_bound, korn_graubard_interval
from pytest_crucible.stats.proportions.one import clopper_pearson_bound, wilson_interval
from pytest_crucible.stats.sequential.betting import betting_bound


def wilson(seen: Observed, level: float) -> Interval | None:
    return wilson_interval(int(seen.values.sum()), seen.values.size, level=level)


def korn_graubard(seen: Observed, level: float) -> Interval | None:
    return korn_graubard_interval(seen.values, seen.labels, level=level)


def student(seen: Observed, level: float) -> Interval | None:
    return mean_interval(seen.values, level=level, bounds=seen.bounds)


def cr2(seen: Observed, level: float) -> Interval | None:
    return clustered_interval(clustered_mean(seen.values, seen.labels), level=level, bounds=seen.bounds)


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


def betting_side(seen: Observed, alpha: float, side: Side) -> float:
    return betting_bound(seen.values, bounds=seen.bounds, alpha=alpha, side=side)
