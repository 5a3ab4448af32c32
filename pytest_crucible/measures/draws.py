"""`pass^k` and `pass@k`: one value a sample, the chance that all, or some, of k draws of its replies pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_crucible.measures.row import End, Measured, Observations, Prepared, counted_clusters, no_data
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.stats.estimating import estimate_chances_of
from pytest_crucible.stats.inputs import Observed, declare_arm


def prepare(observations: Observations, end: End) -> Prepared:
    """Return the chances, which `analyse.repeats` has made of the repeats; yes or no where each sample has k of them."""
    column, measure, facts = observations.columns[0], observations.measure, observations.facts[0]
    values = {"observed": column.values, "low": column.low, "high": column.high}[end]
    problem = check(measure, [facts])
    return Prepared(
        values=np.array([]) if problem else values,
        clusters=observations.clusters,
        kind="binary",
        bounds=(0.0, 1.0),
        keys=observations.keys,
        monte_carlo=observations.monte_carlo,
        problem=problem,
    )


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the mean with the interval of its two one-sided bounds."""
    if not len(prepared.values):
        return no_data(prepared)
    arm = declare_arm(prepared.values, kind="binary", bounds=prepared.bounds, clusters=prepared.clusters)
    return describe_chances(arm, level, counted_clusters(prepared.clusters))


def describe_chances(arm: Observed, level: float, groups: int | None) -> Measured:
    """Return the mean of chances that are checked already with the interval of its two one-sided bounds."""
    mean = estimate_chances_of(arm, level)
    return Measured(mean.estimate, mean.interval, groups, mean.method)


def check(measure: Measure, facts: Sequence[MetricFacts]) -> str:
    """Explain a metric that does not show which draws pass; empty for yes or no where yes is better, and for a condition."""
    metric = facts[0]
    if measure.inner_relation is not None:
        return ""
    name = f"{measure.statistic}{measure.draws}"
    if metric.kind not in (None, "binary"):
        return f"a draw passes or not, and {metric.name!r} is {metric.kind}: write {name}({metric.name} >= 0.75), for example"
    if metric.direction == "lower":
        return f"a draw passes where {metric.name!r} is no, as lower is better: write {name}({metric.name} <= 0)"
    return ""


def check_values(measure: Measure, arms: Mapping[str, Prepared]) -> str:
    """Return the problem of `check` where the metric's kind was not known before the run."""
    return next((arm.problem for arm in arms.values() if arm.problem), "")


def planned_as(measure: Measure, facts: MetricFacts) -> MetricFacts:
    """Return the metric as it is planned: of yes or no, as each chance is where a sample has k replies."""
    return MetricFacts(name=measure.expression, kind="binary", low=0.0, high=1.0, direction=facts.direction)
