"""The link from an arm's scores to the rows of `stats.measures.table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.stats.measures.means import numeric as numeric
from pytest_crucible.stats.measures.row import Clusters as Clusters
from pytest_crucible.stats.measures.row import Column, Difference, End, Measured, Observations, Prepared, Statistic
from pytest_crucible.stats.measures.table import STATISTICS


class ScoredMetric(NamedTuple):
    """A metric with its scores in one arm."""

    facts: MetricFacts
    scores: Scores


@dataclass(frozen=True, slots=True)
class SampleAttributes:
    """Attributes of the samples that statistics may use besides scores, one entry a sample."""

    clusters: Clusters | None = None
    expected: Sequence[Any] = ()
    """Empty where no measure of the plan uses it."""
    metadata: Sequence[Mapping[str, Any]] = field(default=())

    def clusters_at(self, chosen: Flags) -> Clusters | None:
        return None if self.clusters is None else self.clusters[chosen]


def mean_of(facts: MetricFacts) -> Measure:
    """Return the mean, which summarises every metric."""
    return Measure(metric=facts.name)


def row_of(measure: Measure) -> Statistic:
    return STATISTICS[measure.statistic]


def scored_samples(metrics: Sequence[ScoredMetric]) -> Flags:
    """Samples that have a score of every metric."""
    return np.asarray(np.all([metric.scores.seen for metric in metrics], axis=0))


def lost_samples(metrics: Sequence[ScoredMetric]) -> Flags:
    return np.asarray(np.any([metric.scores.lost for metric in metrics], axis=0))


def inapplicable_samples(metrics: Sequence[ScoredMetric]) -> Flags:
    """Samples to which some metric does not apply."""
    return np.asarray(np.any([metric.scores.inapplicable for metric in metrics], axis=0))


def prepare(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    end: End = "observed",
) -> Prepared:
    """The numbers that the measure's row makes of the chosen samples."""
    observations = Observations(
        measure=measure,
        facts=tuple(metric.facts for metric in metrics),
        columns=tuple(
            Column(metric.scores.values[chosen], metric.scores.low[chosen], metric.scores.high[chosen])
            for metric in metrics
        ),
        lost=lost_samples(metrics)[chosen],
        clusters=attributes.clusters_at(chosen),
        expected=_choose(attributes.expected, chosen),
        metadata=_choose(attributes.metadata, chosen),
    )
    return row_of(measure).prepare(observations, end)


def estimate_values(
    measure: Measure,
    facts: Sequence[MetricFacts],
    values: Sequence[Floats],
    clusters: Clusters | None = None,
    *,
    level: float,
    expected: Sequence[Any] = (),
) -> Measured:
    """Estimate a measure from one value a sample and metric, none of them missing."""
    return row_of(measure).estimate(_prepare_values(measure, facts, values, clusters, expected), level)


def compare_values(
    measure: Measure,
    facts: Sequence[MetricFacts],
    candidate: Sequence[Floats],
    baseline: Sequence[Floats],
    clusters: Clusters | None = None,
    *,
    alpha: float,
    expected: Sequence[Any] = (),
) -> Difference | None:
    """Compare two arms by a measure, pair by pair; a positive difference is better. None where nothing can be compared."""
    pair = [_prepare_values(measure, facts, values, clusters, expected) for values in (candidate, baseline)]
    return compare_prepared(measure, facts[0], pair[0], pair[1], alpha=alpha)


def compare_prepared(
    measure: Measure, facts: MetricFacts, candidate: Prepared, baseline: Prepared, *, alpha: float
) -> Difference | None:
    """The difference, positive where the candidate is better, whatever the direction of the statistic."""
    row = row_of(measure)
    # plan.targets refuses such a comparison; a stored plan may be of a later version
    if row.difference is None:
        return None
    better = row.higher_is_better(measure, facts)
    return row.difference(candidate, baseline, alpha) if better else row.difference(baseline, candidate, alpha)


def _prepare_values(
    measure: Measure,
    facts: Sequence[MetricFacts],
    values: Sequence[Floats],
    clusters: Clusters | None,
    expected: Sequence[Any],
) -> Prepared:
    observations = Observations(
        measure=measure,
        facts=tuple(facts),
        columns=tuple(Column(column, column, column) for column in values),
        lost=np.zeros(len(values[0]), dtype=bool),
        clusters=clusters,
        expected=expected,
    )
    return row_of(measure).prepare(observations, "observed")


def _choose(values: Sequence[Any], chosen: Flags) -> list[Any]:
    return [value for value, flag in zip(values, chosen, strict=True) if flag] if len(values) else []
