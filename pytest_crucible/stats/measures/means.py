"""Mean, rate and count: one value a sample, its mean, and for a count the mean times n."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pytest_crucible import stats
from pytest_crucible.records import BoundedValue, EffectSize, Interval, Kind, Measure, MetricFacts
from pytest_crucible.stats.measures.row import (
    Difference,
    End,
    Floats,
    Measured,
    Numbers,
    NumericKind,
    Observations,
    Prepared,
    no_bounds,
    no_data,
)

RELATIONS: dict[str, Callable[[Any, float], Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
    "==": np.equal,
}
_RISING = (">=", ">")


def numeric(kind: Kind | None) -> NumericKind:
    """Return the kind as statistics know it. Text is never analysed; a metric without values is treated as binary."""
    return "binary" if kind is None or kind == "text" else kind


def prepare(observations: Observations, end: End) -> Prepared:
    """One value a sample: the metric's, or 1 where the condition holds and 0 elsewhere."""
    facts, measure = observations.facts[0], observations.measure
    column = observations.columns[0]
    plain = Prepared(
        values={"observed": column.values, "low": column.low, "high": column.high}[end],
        clusters=observations.clusters,
        kind=facts.kind or "binary",
        bounds=(facts.low, facts.high),
    )
    if measure.inner_relation is None:
        return plain
    threshold = measure.inner_value or 0.0
    values = _condition_values(observations, measure.inner_relation, threshold, end)
    holds = np.asarray(RELATIONS[measure.inner_relation](values, threshold), dtype=np.float64)
    return replace(plain, values=holds, kind="binary", bounds=(0.0, 1.0))


def _condition_values(observations: Observations, relation: str, threshold: float, end: End) -> Floats:
    """The values that make the condition hold as rarely (low) or as often (high) as the lost samples allow."""
    column, lost = observations.columns[0], observations.lost
    if end == "observed":
        return column.values
    # neither end of the range need be the one value that counts
    if relation == "==":
        # Infinity stands for "does not hold": no threshold is infinite.
        could = lost & (column.low <= threshold) & (threshold <= column.high)
        return np.where(lost, np.inf, column.low) if end == "low" else np.where(could, threshold, column.high)
    return column.low if (end == "low") == (relation in _RISING) else column.high


def estimate_mean(prepared: Prepared, level: float) -> Measured:
    """The mean with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    mean = stats.estimate(
        prepared.values,
        kind=numeric(prepared.kind),
        bounds=prepared.bounds,
        clusters=prepared.clusters,
        alpha=1 - level,
    )
    return Measured(mean.estimate, mean.interval, mean.clusters, mean.method)


def bound_mean(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """The mean with its one-sided bounds. Values may be infinite: lost ones without a worst value."""
    if not len(prepared.values):
        return no_bounds(prepared)
    if not np.isfinite(prepared.values).all():
        return BoundedValue(value=float(np.sum(prepared.values)), lower=None, upper=None), "unbounded"
    lower, upper = (
        stats.mean_bound(
            prepared.values,
            kind=numeric(prepared.kind),
            bounds=prepared.bounds,
            clusters=prepared.clusters,
            alpha=alpha,
            side=side,
        )
        for side in _SIDES
    )
    return BoundedValue(value=float(np.mean(prepared.values)), lower=lower.value, upper=upper.value), lower.method


_SIDES: tuple[Literal["lower", "upper"], ...] = ("lower", "upper")


def estimate_count(prepared: Prepared, level: float) -> Measured:
    """The sum with its two-sided interval: n times the mean and its interval."""
    mean, n = estimate_mean(prepared, level), len(prepared.values)
    interval = mean.interval and Interval(
        low=mean.interval.low * n, high=mean.interval.high * n, level=mean.interval.level, method=mean.interval.method
    )
    return replace(mean, value=_times(mean.value, n), interval=interval)


def bound_count(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """The sum with its one-sided bounds."""
    n = len(prepared.values)
    if n and np.isfinite(prepared.values).all() and not prepared.values.any():
        # Nothing was counted, so the values do not vary. The proportion of samples that count still has a bound.
        prepared = replace(prepared, kind="binary", bounds=(0.0, 1.0))
    reading, method = bound_mean(prepared, alpha)
    # An unbounded value is a sum already, and infinite.
    scale = 1 if method == "unbounded" else n
    scaled = (_times(number, scale) for number in (reading.value, reading.lower, reading.upper))
    return BoundedValue(**dict(zip(("value", "lower", "upper"), scaled, strict=True))), method


def compare_means(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """First minus second, pair by pair. None without pairs, and where a lost value without bounds could be anything."""
    pair = first.values, second.values
    if not len(pair[0]) or not all(np.isfinite(values).all() for values in pair):
        return None
    shape: dict[str, Any] = {"kind": numeric(first.kind), "bounds": first.bounds, "clusters": first.clusters}
    result = stats.compare(*pair, alpha=alpha, **shape)
    bounds = stats.difference_bounds(*pair, alpha=alpha, **shape)
    effects = [size for size in (result.effect, *result.effects) if size is not None]
    return Difference(
        value=result.estimate,
        interval=result.interval,
        p_value=result.p_value,
        p_exact=result.p_exact,
        lower=bounds.low,
        upper=bounds.high,
        method=result.method,
        bounds_method=bounds.method,
        n=result.n,
        clusters=result.clusters,
        deviation=result.deviation,
        discordance=_discordance(result.n, result.deviation, result.estimate) if result.method == "tango" else None,
        span=first.bounds[1] - first.bounds[0],
        effects=tuple(EffectSize(name=size.name, value=size.value, interval=size.interval) for size in effects),
        note=result.note,
    )


def _discordance(n: int, deviation: float | None, difference: float | None) -> float:
    """Proportion of pairs that disagree: the variance of the differences plus their squared mean."""
    return min(1.0, (deviation or 0.0) ** 2 * (n - 1) / n + (difference or 0.0) ** 2)


def samples_to_prove_mean(prepared: Prepared, limit: float, alpha: float) -> int | None:
    """About how many samples would prove the estimate against a limit, were it the truth."""
    values = prepared.values
    if len(values) < 2:
        return None
    if prepared.kind == "binary" and np.isin(values, (0.0, 1.0)).all():
        # No number of samples proves that a rate lies beyond 0 or 1.
        if not 0 <= limit <= 1:
            return None
        rate = float(values.mean())
        side: Literal["lower", "upper"] = "lower" if rate > limit else "upper"
        return stats.samples_to_prove_proportion(rate, limit, alpha=alpha, side=side)
    return stats.samples_to_prove_mean(float(values.mean()), float(values.std(ddof=1)), limit, alpha=alpha)


def metric_reach(measure: Measure, facts: MetricFacts) -> Numbers:
    return facts.low, facts.high


def rate_reach(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def any_reach(measure: Measure, facts: MetricFacts) -> Numbers:
    return -math.inf, math.inf


def metric_direction(measure: Measure, facts: MetricFacts) -> bool:
    """Higher is better where it is for the metric; a condition with < or <= turns the direction around."""
    falling = measure.inner_relation is not None and measure.inner_relation not in _RISING
    return (facts.direction == "higher") != falling


def mean_facts(measure: Measure, facts: MetricFacts) -> MetricFacts:
    """The facts of the value whose mean the statistic is: a condition makes it yes or no."""
    if measure.inner_relation is None:
        return facts
    return MetricFacts(name=measure.expression, kind="binary", low=0.0, high=1.0, direction=facts.direction)


def _times(value: float | None, scale: int) -> float | None:
    return None if value is None else value * scale
