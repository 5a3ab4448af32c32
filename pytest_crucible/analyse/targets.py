"""Estimates of one arm, and the evidence for each quality target of the candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import (
    Clusters,
    SampleAttributes,
    ScoredMetric,
    inapplicable_samples,
    lost_samples,
    mean_of,
    prepare,
    row_of,
    scored_samples,
)
from pytest_crucible.records import Estimate, Evidence, Measure, MetricFacts, Target, TargetResult


def estimate_mean(facts: MetricFacts, arm: str, scores: Scores, clusters: Clusters | None, *, level: float) -> Estimate:
    """The mean of a metric in one arm over the samples that have a score."""
    return estimate(mean_of(facts), [ScoredMetric(facts, scores)], arm, SampleAttributes(clusters), level=level)


def estimate(
    measure: Measure, metrics: Sequence[ScoredMetric], arm: str, attributes: SampleAttributes, *, level: float
) -> Estimate:
    """A measure in one arm over the samples that have a score of each of its metrics."""
    scored = scored_samples(metrics)
    measured = row_of(measure).estimate(prepare(measure, metrics, attributes, scored), level)
    return Estimate(
        metric=measure.metric,
        statistic=measure.label,
        arm=arm,
        n=int(scored.sum()),
        lost=int(lost_samples(metrics).sum()),
        inapplicable=int(inapplicable_samples(metrics).sum()),
        value=measured.value,
        unconditional=_unconditional(measure, metrics[0]),
        interval=measured.interval,
        clusters=measured.clusters,
        method=measured.method,
    )


def evaluate_target(
    target: Target, metrics: Sequence[ScoredMetric], arm: str, attributes: SampleAttributes, *, alpha: float
) -> TargetResult:
    """A target's estimate, its one-sided bounds, and the same with the lost samples at either extreme."""
    row, scored, applicable = row_of(target), scored_samples(metrics), ~inapplicable_samples(metrics)
    prepared = prepare(target, metrics, attributes, scored)
    observed, method = row.bound(prepared, alpha)
    worst = best = observed
    if lost_samples(metrics).any():
        worst, _ = row.bound(prepare(target, metrics, attributes, applicable, "low"), alpha)
        best, _ = row.bound(prepare(target, metrics, attributes, applicable, "high"), alpha)
    # An equality has no proof, and the formulas for sample sizes take samples for independent.
    has_size = attributes.clusters is None and target.relation != "=="
    return TargetResult(
        target=target,
        estimate=estimate(target, metrics, arm, attributes, level=1 - alpha),
        evidence=Evidence(observed=observed, worst=worst, best=best, method=method),
        needed=row.samples_to_prove(prepared, target.value, alpha) if has_size else None,
        note=prepared.problem,
    )


def _unconditional(measure: Measure, metric: ScoredMetric) -> float | None:
    """The mean with the metric's worst value where it does not apply."""
    facts, scores = metric
    worst = facts.low if facts.direction == "higher" else facts.high
    if not row_of(measure).fills_inapplicable or not scores.inapplicable.any() or not math.isfinite(worst):
        return None
    values = np.where(scores.inapplicable, worst, scores.values)
    # Lost samples stay NaN here: their value is unknown, not the worst.
    return float(np.nanmean(values))
