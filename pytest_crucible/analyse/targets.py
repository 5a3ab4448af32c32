"""Drops: the original samples against their twins, by the same paired method as two arms.

Yes and no with one reply each are compared by the exact unconditional or Tango's score interval, others by the paired t or,
with groups, CR2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible.analyse import crossed
from pytest_crucible.analyse.conditional import LOOKS, declaration_problem, is_conditional, paired_samples
from pytest_crucible.analyse.scores import Flags, Pair, Scores
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
from pytest_crucible.measures import sequences
from pytest_crucible.measures.row import Difference, End, Measured
from pytest_crucible.measures.table import MEAN, target_problem
from pytest_crucible.records import (
    BoundedValue,
    Contrast,
    Estimate,
    Evidence,
    Measure,
    MetricFacts,
    Target,
    TargetResult,
)
from pytest_crucible.stats.exact_sums import exact_sum
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import quantity


def drop_arms(pair: Pair) -> tuple[Contrast, tuple[list[ScoredMetric], list[ScoredMetric]]]:
    """Return the comparison that a drop is, with the twins as its candidate and the original samples as its baseline."""
    # With a margin it is a difference of means, also for a metric whose arms are compared by ratios.
    contrast = Contrast(metric=pair.facts.name, baseline="", margin=0.0)
    # A reach is about two arms, not about a sample and its twin.
    facts = replace(pair.facts, reach=None)
    return contrast, ([ScoredMetric(facts, pair.twins)], [ScoredMetric(facts, pair.originals)])


def drop_difference(
    pair: Pair, attributes: SampleAttributes, chosen: Flags, end: End, alpha: float
) -> Difference | None:
    """Return twins minus original samples, positive if the twins are better, at one end of the drop."""
    contrast, arms = drop_arms(pair)
    if is_conditional(contrast, *arms):
        chosen = paired_samples(*arms)[0 if end == "observed" else 1]
    # Loaded where something is compared.
    from pytest_crucible.analyse.comparisons import compare_pair

    return compare_pair(contrast, arms, attributes, chosen, ends_of_drop(pair, end), alpha)


def estimate_drop(difference: Difference | None) -> Measured:
    """Return the drop with its two-sided interval."""
    if difference is None:
        return Measured(None, None, None, "no pairs")
    return Measured(
        _minus(difference.value), _negate_interval(difference.interval), difference.clusters, difference.method
    )


def bound_drop(difference: Difference | None) -> tuple[BoundedValue, str]:
    """Return the drop with its one-sided bounds."""
    if difference is None:
        return BoundedValue(value=None), "none"
    bounds = BoundedValue(
        value=_minus(difference.value), lower=_minus(difference.upper), upper=_minus(difference.lower)
    )
    return bounds, difference.bounds_method


def ends_of_drop(pair: Pair, end: End) -> tuple[End, End]:
    """Return the ends of twins and samples at which the drop is lowest or highest."""
    if end == "observed":
        return "observed", "observed"
    # A drop is high where the twins are worse: low values, if higher is better.
    is_up = (end == "high") == (pair.facts.direction == "higher")
    return ("low", "high") if is_up else ("high", "low")


def _negate_interval(interval: Interval | None) -> Interval | None:
    return None if interval is None else replace(interval, low=-interval.high, high=-interval.low)


def _minus(value: float | None) -> float | None:
    # Not -0.0, which would be shown.
    return None if value is None else 0.0 - value


def estimate_mean(facts: MetricFacts, arm: str, scores: Scores, clusters: Clusters | None, *, level: float) -> Estimate:
    """Return the mean of a metric in one arm over the samples that have a score."""
    return estimate(mean_of(facts), [ScoredMetric(facts, scores)], arm, SampleAttributes(clusters), level=level)


def estimate(
    measure: Measure, metrics: Sequence[ScoredMetric], arm: str, attributes: SampleAttributes, *, level: float
) -> Estimate:
    """Return a measure in one arm over the samples that have a score of each of its metrics."""
    alone = row_of(measure).of_slices
    scored = scored_samples(metrics, alone=alone)
    measured = _measure(measure, metrics, attributes, scored, level)
    return Estimate(
        metric=measure.written or measure.metric,
        statistic=measure.label,
        arm=arm,
        n=int(scored.sum()),
        lost=int(lost_samples(metrics).sum()),
        inapplicable=int(inapplicable_samples(metrics, alone=alone).sum()),
        value=measured.value,
        unconditional=_unconditional(measure, metrics[0]),
        interval=measured.interval,
        clusters=measured.clusters,
        method=measured.method,
        replies=_replies(measure, metrics[0].scores, scored),
        uneven="" if alone or metrics[0].scores.pair is not None else _uneven(measure, metrics, scored),
    )


def _measure(
    measure: Measure, metrics: Sequence[ScoredMetric], attributes: SampleAttributes, scored: Flags, level: float
) -> Measured:
    pair = pair_of(measure, metrics, attributes)
    if pair is not None:
        return estimate_drop(drop_difference(pair, attributes, scored, "observed", 1 - level))
    prepared = prepare(measure, metrics, attributes, scored)
    of_measure = sequences.estimate_mean if attributes.look_alpha is not None else row_of(measure).estimate
    measured = of_measure(prepared, level)
    if attributes.look_alpha is not None and metrics[0].scores.mixed.any():
        measured = replace(measured, interval=None)
    if attributes.random_factors:
        measured = crossed.estimate(measure, metrics, attributes, scored, measured, level)
    return measured


def pair_of(measure: Measure, metrics: Sequence[ScoredMetric], attributes: SampleAttributes) -> Pair | None:
    """Return the two sides of a drop that is judged by the method for pairs; None for anything else."""
    is_plain = attributes.look_alpha is None and not attributes.random_factors and measure.statistic == MEAN.name
    return metrics[0].scores.pair if is_plain else None


def evaluate_target(
    target: Target, metrics: Sequence[ScoredMetric], arm: str, attributes: SampleAttributes, *, alpha: float
) -> TargetResult:
    """Return a target's estimate, its one-sided bounds, and the same with the lost samples at either extreme."""
    row = row_of(target)
    scored = scored_samples(metrics, alone=row.of_slices)
    prepared = prepare(target, metrics, attributes, scored)
    evidence, note = weigh_target(target, metrics, attributes, alpha=alpha)
    # An equality has no proof, and the formulas for sample sizes take samples for independent and the only noise.
    is_plain = not attributes.random_factors and attributes.look_alpha is None
    has_size = is_plain and attributes.clusters is None and target.relation != "==" and metrics[0].scores.pair is None
    return TargetResult(
        target=target,
        estimate=estimate(target, metrics, arm, attributes, level=1 - alpha),
        evidence=evidence,
        needed=row.samples_to_prove(prepared, target.value, alpha) if has_size else None,
        note=prepared.problem or row.no_proof(target, metrics[0].facts) or note or prepared.note,
        # Without a scored value an inferred kind is only a default, by which nothing is impossible.
        suite_error=declaration_problem(metrics)
        or (
            row.check_values(target, {arm: prepared}) or target_problem(target, metrics[0].facts)
            if scored.any()
            else ""
        ),
    )


def weigh_target(
    target: Target, metrics: Sequence[ScoredMetric], attributes: SampleAttributes, *, alpha: float
) -> tuple[Evidence, str]:
    """Return the evidence for a target, and a note if a random factor leaves no bounds."""
    alone = row_of(target).of_slices
    scored, applicable = scored_samples(metrics, alone=alone), ~inapplicable_samples(metrics, alone=alone)
    observed, method, note = _bound_target(target, metrics, attributes, scored, "observed", alpha)
    worst = best = observed
    if lost_samples(metrics).any():
        worst, *_ = _bound_target(target, metrics, attributes, applicable, "low", alpha)
        best, *_ = _bound_target(target, metrics, attributes, applicable, "high", alpha)
    return Evidence(observed=observed, worst=worst, best=best, method=method), note


def _bound_target(
    target: Target,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    end: End,
    alpha: float,
) -> tuple[BoundedValue, str, str]:
    """Return the bounds, their method, and a note if a random factor leaves no bounds."""
    pair = pair_of(target, metrics, attributes)
    if pair is not None:
        difference = drop_difference(pair, attributes, chosen, end, alpha)
        return *bound_drop(difference), difference.note if difference else ""
    if attributes.look_alpha is not None and metrics[0].scores.mixed.any():
        mean = sequences.mean_of(prepare(target, metrics, attributes, chosen, end))
        return BoundedValue(value=mean), "none", LOOKS
    if attributes.look_alpha is not None:
        looked = sequences.bound_mean(prepare(target, metrics, attributes, chosen, end), attributes.look_alpha)
        return *looked, ""
    bounds, method = row_of(target).bound(prepare(target, metrics, attributes, chosen, end), alpha)
    if not attributes.random_factors:
        return bounds, method, ""
    if row_of(target).no_proof(target, metrics[0].facts):
        return replace(bounds, lower=None, upper=None), method, ""
    return crossed.bound_measure(target, metrics, attributes, chosen, end, bounds, method, alpha)


def _replies(measure: Measure, scores: Scores, scored: Flags) -> int | None:
    if scores.units is None or not row_of(measure).of_replies or measure.by_sample:
        return None
    return int((~np.isnan(scores.units.values[scored])).sum())


def _uneven(measure: Measure, metrics: Sequence[ScoredMetric], scored: Flags) -> str:
    """Return how many replies the samples have and what counts alike, if they have unequal numbers of them; else an empty text.

    Rates, percentiles and totals count replies, and so does a mean of the replies that a metric applies to. Other statistics
    average the replies to a sample first.
    """
    scores, row = metrics[0].scores, row_of(measure)
    # A mean by sample, or the chance of draws, is one value of each cell of replies.
    if scores.units is None or measure.by_sample or row.chances is not None or not scored.any():
        return ""
    counts = (~np.isnan(scores.units.values[scored])).reshape(int(scored.sum()), -1).sum(axis=1)
    if counts.min() == counts.max():
        return ""
    if row.is_mean and not row.of_replies and scores.mixed[scored].any():
        answered = counts / scores.shares.observed[scored]
        by_share = "each sample counts by the share of its replies that the metric applies to"
        alike = "each reply counts alike" if np.allclose(answered, answered[0]) else by_share
        return f"{quantity(int(counts.sum()), 'reply')}, {alike}"
    return uneven_text(measure, int(counts.sum()))


def uneven_text(measure: Measure, replies: int) -> str:
    """Return how many replies there are, and what counts alike, of a metric that applies to all or none of a sample's."""
    row = row_of(measure)
    alike = "each sample counts alike" if row.is_mean else "averaged in each sample first"
    return f"{quantity(replies, 'reply')}, {'each reply counts alike' if row.of_replies else alike}"


def _unconditional(measure: Measure, metric: ScoredMetric) -> float | None:
    """Return the mean with the metric's worst value where it does not apply; None for a rate that is conditional by definition."""
    facts, scores = metric
    worst = worst_if_inapplicable(measure, facts)
    if worst is None or not scores.inapplicable.any():
        return None
    values = np.where(scores.inapplicable, worst, scores.values)
    # Lost samples stay NaN here: their value is unknown, not the worst.
    values = values[~np.isnan(values)]
    return exact_sum(values) / values.size


def worst_if_inapplicable(measure: Measure, facts: MetricFacts) -> float | None:
    """Return the value that stands for "does not apply" in the unconditional mean; None where there is no such mean."""
    is_conditional = facts.applies is not None or facts.applies_to is not None or facts.is_conditional
    worst = facts.low if facts.direction == "higher" else facts.high
    return worst if row_of(measure).fills_inapplicable and not is_conditional and math.isfinite(worst) else None
