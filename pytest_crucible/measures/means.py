"""Mean, rate and count: one value a sample, its mean, and for a count the mean times the number of replies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from pytest_crucible import stats
from pytest_crucible.measures.declarations import RISING
from pytest_crucible.measures.row import (
    Clusters,
    Difference,
    End,
    Floats,
    Measured,
    Numbers,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
    smallest_p_value,
)
from pytest_crucible.measures.values import (
    clip_value,
    is_tiny_mean,
    joint_shape,
    largest_change,
    linearise,
    numeric,
    one_value_a_sample,
    values_and_shape,
    without_rounding,
)
from pytest_crucible.records import BoundedValue, Contrast, EffectSize, Measure, MetricFacts
from pytest_crucible.stats.estimating import bound_arm, clip_interval, estimate_arm
from pytest_crucible.stats.exact_sums import exact_sum
from pytest_crucible.stats.inputs import Arms, Observed, declare_arm, declare_arms, declare_pairs, scale_of
from pytest_crucible.stats.interval import Interval

RELATIONS: dict[str, Callable[[Any, float], Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
    "==": np.equal,
}


def prepare(observations: Observations, end: End) -> Prepared:
    """Return one value a sample: the metric's, or 1 where the condition holds and 0 elsewhere."""
    facts, measure = observations.facts[0], observations.measure
    column = observations.columns[0]
    plain = Prepared(
        values={"observed": column.values, "low": column.low, "high": column.high}[end],
        clusters=observations.clusters,
        kind=facts.kind or "binary",
        bounds=(facts.low, facts.high),
        # A percentile or a total of the same values does not change by at most that.
        largest_change=facts.reach if measure.statistic == "mean" else None,
        keys=observations.keys,
        monte_carlo=observations.monte_carlo,
    )
    if measure.inner_relation is None and observations.weights is not None and np.isfinite(plain.values).all():
        if observations.at_looks:
            return replace(plain, weights=observations.weights)
        return linearise(plain, observations.weights)
    if measure.inner_relation is None:
        return _by_sample(plain, observations)
    threshold = measure.inner_value or 0.0
    values = _condition_values(observations, measure.inner_relation, threshold, end)
    holds = np.asarray(RELATIONS[measure.inner_relation](values, threshold), dtype=np.float64)
    # First the condition, then the mean of a sample's replies: it need not hold for the mean of them.
    return _by_sample(replace(plain, values=holds, kind="binary", bounds=(0.0, 1.0)), observations)


def _by_sample(prepared: Prepared, observations: Observations) -> Prepared:
    return one_value_a_sample(prepared, observations.samples, linearised=not observations.at_looks)


def _condition_values(observations: Observations, relation: str, threshold: float, end: End) -> Floats:
    """Return the values that make the condition hold as rarely (low) or as often (high) as the lost samples allow."""
    column, lost = observations.columns[0], observations.lost
    if end == "observed":
        return column.values
    # neither end of the range need be the one value that counts
    if relation == "==":
        # Infinity stands for "does not hold": no threshold is infinite.
        could = lost & (column.low <= threshold) & (threshold <= column.high)
        return np.where(lost, np.inf, column.low) if end == "low" else np.where(could, threshold, column.high)
    return column.low if (end == "low") == (relation in RISING) else column.high


def estimate_mean(prepared: Prepared, level: float) -> Measured:
    """Return the mean with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    values, shape = values_and_shape(prepared)
    return describe_mean(declare_arm(values, **shape), level, prepared.bounds, counted_clusters(prepared.clusters))


def describe_mean(arm: Observed, level: float, bounds: Numbers, groups: int | None) -> Measured:
    """Return the mean of values that are checked already with its two-sided interval."""
    mean = estimate_arm(arm, 1 - level)
    return Measured(mean.estimate, clip_interval(mean.interval, bounds), groups, mean.method)


def bound_mean(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the mean with its one-sided bounds. Values may be infinite: lost ones without a worst value."""
    if not len(prepared.values):
        return no_bounds(prepared)
    if not np.isfinite(prepared.values).all():
        return BoundedValue(value=float(np.sum(prepared.values)), lower=None, upper=None), "unbounded"
    values, shape = values_and_shape(prepared)
    # The mean of replies, where there are several of a sample, is that of all of them.
    value = exact_sum(values) / values.size
    return bound_arm_mean(declare_arm(values, **shape), alpha, prepared.bounds, value)


def bound_arm_mean(arm: Observed, alpha: float, bounds: Numbers, value: float) -> tuple[BoundedValue, str]:
    """Return the mean of values that are checked already with its one-sided bounds."""
    lower, upper = (bound_arm(arm, alpha, side) for side in _SIDES)
    method = "none" if lower.value is None and upper.value is None else lower.method
    low, high = (clip_value(side.value, bounds) for side in (lower, upper))
    return BoundedValue(value=value, lower=low, upper=high), method


_SIDES: tuple[Literal["lower", "upper"], ...] = ("lower", "upper")


def estimate_count(prepared: Prepared, level: float) -> Measured:
    """Return the sum with its two-sided interval: the mean and its interval times the number of replies."""
    return as_total(estimate_mean(prepared, level), _size(prepared))


def as_total(mean: Measured, n: int) -> Measured:
    """Return the sum of n replies from their mean."""
    interval = mean.interval and Interval(
        low=mean.interval.low * n, high=mean.interval.high * n, level=mean.interval.level, method=mean.interval.method
    )
    return replace(mean, value=_times(mean.value, n), interval=interval)


def bound_count(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the sum with its one-sided bounds."""
    n = _size(prepared)
    if n and np.isfinite(prepared.values).all() and not prepared.values.any():
        # Nothing was counted, so the values do not vary. The proportion of samples that count still has a bound.
        prepared = replace(prepared, kind="binary", bounds=(0.0, 1.0), ends=None, replies=None)
    return as_bounded_total(bound_mean(prepared, alpha), n)


def as_bounded_total(mean: tuple[BoundedValue, str], n: int) -> tuple[BoundedValue, str]:
    """Return the sum of n replies with its bounds from those of their mean."""
    reading, method = mean
    # An unbounded value is a sum already, and infinite.
    scale = 1 if method == "unbounded" else n
    value, lower, upper = (_times(number, scale) for number in (reading.value, reading.lower, reading.upper))
    return BoundedValue(value=value, lower=lower, upper=upper), method


def compare_means(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second, pair by pair. None without pairs, and where a lost value without bounds could be anything."""
    if not len(first.values) or not all(np.isfinite(arm.values).all() for arm in (first, second)):
        return None
    arms = _pair_means(first, second)
    difference = compare_arms(arms, first, alpha)
    span = difference.span
    return replace(
        difference,
        # Gaffke's bound decides a margin only of values that are bounded.
        samples_past_limit=partial(
            _samples_past_limit, arms.candidate.values - arms.baseline.values, (-span, span), first.clusters
        )
        if difference.bounds_method == "gaffke"
        else None,
    )


def _pair_means(first: Prepared, second: Prepared) -> Arms:
    pair = first.values, without_rounding(first.values, second.values, first.bounds)
    arms = declare_pairs(*pair, **joint_shape(first, second), reach=first.largest_change)
    return replace(arms, keys=first.keys, monte_carlo=first.monte_carlo)


def weigh_means(first: Prepared, second: Prepared, alpha: float, *, by_test: bool, by_bounds: bool) -> BoundedValue:
    """Return what decides about first minus second as `compare_means` has it: the test, the one-sided bounds, or both."""
    # They need scipy, which a session without a comparison does not load.
    from pytest_crucible.stats.comparing import bound_declared_arms, significance_of_arms

    arms = _pair_means(first, second)
    value, span = arms.pairs.mean, largest_change(first)
    reading = BoundedValue(value=0.0 if is_tiny_mean(value, first.bounds) else value)
    if by_test:
        test = significance_of_arms(arms, alpha)
        tiny = reading.value != value
        reading = replace(
            reading,
            p_value=1.0 if tiny and test.p_value is not None else test.p_value,
            proof_p=1.0 if tiny and test.proof_p is not None else test.proof_p,
            smallest_p=smallest_p_value(test.alikeness, test.method, len(first.values)),
        )
    if not by_bounds:
        return reading
    bounds = bound_declared_arms(arms, alpha)
    lower, upper = (clip_value(bound, (-span, span)) for bound in (bounds.low, bounds.high))
    return replace(reading, lower=lower, upper=upper)


def compare_unpaired_means(first: Prepared, second: Prepared, alpha: float) -> Difference:
    """Return first minus second mean of two arms with values of their own, all of them finite."""
    shape = joint_shape(first, second)
    clusters = None
    if first.clusters is not None and second.clusters is not None:
        clusters = first.clusters.tolist(), second.clusters.tolist()
    arms = declare_arms(first.values, second.values, **{**shape, "clusters": clusters})
    return compare_arms(replace(arms, monte_carlo=first.monte_carlo), first, alpha)


def compare_arms(arms: Arms, first: Prepared, alpha: float) -> Difference:
    """Return the difference of two arms' means, with what pairs and independent arms have in common."""
    # They need scipy, which a session without a comparison does not load.
    from pytest_crucible.stats.comparing import bound_declared_arms, compare_declared_arms

    result = compare_declared_arms(arms, alternative="two-sided", alpha=alpha)
    bounds = bound_declared_arms(arms, alpha)
    effects = [size for size in (result.effect, *result.effects) if size is not None]
    tiny, span = is_tiny_mean(result.estimate, first.bounds), largest_change(first)
    value = 0.0 if tiny else result.estimate
    # Single pairs of yes or no; means of repeats and groups are compared as scores.
    is_paired_binary = arms.differences is not None and arms.candidate.kind == "binary" and not arms.clustered
    return Difference(
        value=value,
        discordance=_discordance(result.n, result.deviation, value) if is_paired_binary else None,
        interval=clip_interval(result.interval, (-span, span)),
        p_value=1.0 if tiny and result.p_value is not None else result.p_value,
        p_exact=result.p_exact,
        proof_p=1.0 if tiny and result.proof_p is not None else result.proof_p,
        alikeness=result.alikeness,
        lower=clip_value(bounds.low, (-span, span)),
        upper=clip_value(bounds.high, (-span, span)),
        method=result.method,
        bounds_method=bounds.method,
        n=result.n,
        clusters=result.clusters,
        deviation=result.deviation,
        dof=result.dof,
        span=span,
        effects=tuple(EffectSize(name=size.name, value=size.value, interval=size.interval) for size in effects),
        note=result.note,
    )


def compare_counts(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second total, of as many replies in both arms: the difference of means times the larger number."""
    mean = compare_means(first, second, alpha)
    return None if mean is None else as_total_difference(mean, max(_size(first), _size(second)))


def as_total_difference(mean: Difference, n: int) -> Difference:
    """Return the difference of totals of n replies from that of their means."""
    interval = mean.interval and replace(mean.interval, low=mean.interval.low * n, high=mean.interval.high * n)
    return replace(
        mean,
        value=_times(mean.value, n),
        interval=interval,
        lower=_times(mean.lower, n),
        upper=_times(mean.upper, n),
        # A total grows with the samples, so that no number of them shows a given one.
        deviation=None,
        discordance=None,
        samples_past_limit=None,
        span=mean.span * n,
    )


def _size(prepared: Prepared) -> int:
    return len(prepared.values) if prepared.size is None else prepared.size


def _discordance(n: int, deviation: float | None, difference: float | None) -> float:
    """Proportion of pairs that disagree: the variance of the differences plus their squared mean."""
    return min(1.0, (deviation or 0.0) ** 2 * (n - 1) / n + (difference or 0.0) ** 2)


def samples_to_prove_mean(prepared: Prepared, limit: float, alpha: float) -> int | None:
    """Return about how many samples prove the estimate against a limit with 80 % power, if it is the truth."""
    values = prepared.values
    if len(values) < 2 or scale_of(numeric(prepared.kind), prepared.bounds) == "unbounded":
        return None
    if prepared.kind == "binary" and np.isin(values, (0.0, 1.0)).all():
        # No number of samples proves that a rate lies beyond 0 or 1.
        if not 0 <= limit <= 1:
            return None
        rate = float(values.mean())
        side: Literal["lower", "upper"] = "lower" if rate > limit else "upper"
        return stats.samples_to_prove_proportion(rate, limit, alpha=alpha, side=side)
    return _samples_past_limit(values, joint_shape(prepared, prepared)["bounds"], None, limit, alpha, 0.8)


def _samples_past_limit(
    values: Floats, ends: Numbers, clusters: Clusters | None, limit: float, alpha: float, power: float
) -> int | None:
    """Return how many samples prove that the mean lies beyond the limit, on the side on which these values do."""
    # Below the limit, the mirrored values have to be proven to lie above the mirrored limit.
    sign, end = (1.0, ends[0]) if values.mean() > limit else (-1.0, -ends[1])
    # Means of replies lie beyond their end by rounding.
    inside = sign * np.clip(values, *ends)
    return stats.samples_by_gaffke(inside, null=sign * limit, end=end, alpha=alpha, power=power, clusters=clusters)


def no_proof(measure: Measure, facts: MetricFacts) -> str:
    """Explain why a mean of the metric has no bound on some side: its values have no declared end there."""
    limits = facts.low, facts.high
    unknown = facts.kind in (None, "text") or measure.inner_relation is not None
    if isinstance(measure, Contrast) and measure.statistic == "mean" and facts.reach is not None:
        return ""
    if unknown or scale_of(numeric(facts.kind), limits) != "unbounded":
        return ""
    name = measure.metric
    where = " from above" if facts.kind in ("count", "positive") else ""
    if isinstance(measure, Contrast):
        limit = 'the margin as a share, such as margin="10 %"'
        if measure.relevant is not None:
            limit = 'the relevant difference as a share, such as relevant="10 %"'
        instead = f", or write {limit}" if facts.kind == "positive" else ""
        # A total of the same values changes by more than the reach of a sample.
        reach = " or its reach" if measure.statistic == "mean" else ""
        means = "means" if measure.statistic == "mean" else "totals"
        return f"nothing is proven about a difference of {means} without bounds: declare bounds of {name!r}{reach}{instead}"
    return f"without bounds a mean is never proven{where}: declare bounds of {name!r}, or ask for rate({name} ...) or p50({name})"


def _times(value: float | None, scale: int) -> float | None:
    if value is None:
        return None
    total = value * scale
    # A sum of whole numbers is one: the mean of replies times their number may be 9.000000000000002.
    return float(round(total)) if math.isfinite(total) and math.isclose(total, round(total), rel_tol=1e-12) else total
