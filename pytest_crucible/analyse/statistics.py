"""The link from an arm's scores to the rows of `measures.table`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats, Scores, Units, map_arrays
from pytest_crucible.measures.row import Clusters as Clusters
from pytest_crucible.measures.row import Column, Difference, End, Measured, Observations, Prepared
from pytest_crucible.measures.statistic import Statistic
from pytest_crucible.measures.table import STATISTICS, comparison_row
from pytest_crucible.measures.values import numeric as numeric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Contrast, Measure, MetricFacts, Plan
from pytest_crucible.records.datasets import By
from pytest_crucible.stats.resampling.draws import UNSEEDED, Keys, MonteCarlo

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.slicing import Slicing


Sessions = Literal["paired", "of each arm"]
"""Rounds that are sessions of a pool: both arms have the same ones, or each has its own, as with a stored baseline."""


class ScoredMetric(NamedTuple):
    """A metric with its scores in one arm."""

    facts: MetricFacts
    scores: Scores


@dataclass(frozen=True, slots=True)
class SampleAttributes:
    """Attributes of the samples that statistics may use besides scores, one entry a sample."""

    clusters: Clusters | None = None
    expected: Sequence[Any] = ()
    """Empty if no measure of the plan uses it."""
    slicings: Mapping[By, Slicing] = field(default_factory=dict)
    """The slices of each field that a measure of the plan names."""
    random_factors: tuple[str, ...] = ()
    """Factors whose noise every interval counts; the scores then have their units."""
    sessions: Sessions | None = None
    """How rounds are arranged that are sessions of a pool; None if they are rounds of one session."""
    keys: Keys | None = None
    """A hash of each sample's id, by which permutation tests join samples into blocks; None: of its position."""
    monte_carlo: MonteCarlo = UNSEEDED
    """The seed of permutation tests, and how small a p-value they have to resolve."""
    look_alpha: float | None = None
    """The error rate of each claim of a run with looks, whose samples are in look order; None for a run without looks."""
    largest_group: int = 1
    """The most samples that a group of the whole plan has, of which a look sees a part."""

    def clusters_at(self, chosen: Flags) -> Clusters | None:
        return None if self.clusters is None else self.clusters[chosen]


def mean_of(facts: MetricFacts) -> Measure:
    """Return the mean, which summarises every metric."""
    return Measure(metric=facts.name)


def row_of(measure: Measure) -> Statistic:
    return STATISTICS[measure.statistic]


def limits_to_clear(contrast: Contrast, value: float) -> tuple[float, ...]:
    """Return the differences that the bounds must exclude for a verdict, if the estimate is the truth."""
    margin = contrast.limit or 0.0
    if contrast.alternative == "superior":
        return (margin,)
    if contrast.alternative == "equivalent" and abs(value) < margin:
        return (-margin, margin)
    # Beyond a margin one bound is enough: it proves that the arms are not equivalent.
    return (math.copysign(margin, value),) if contrast.alternative == "equivalent" else (-margin,)


def scored_samples(metrics: Sequence[ScoredMetric], *, alone: bool = False) -> Flags:
    """Return which samples have a score of every metric; of some metric, if each counts `alone` where it applies."""
    return _join_flags([metric.scores.seen for metric in metrics], np.any if alone else np.all)


def lost_samples(metrics: Sequence[ScoredMetric]) -> Flags:
    return _join_flags([metric.scores.lost for metric in metrics], np.any)


def inapplicable_samples(metrics: Sequence[ScoredMetric], *, alone: bool = False) -> Flags:
    """Return to which samples some metric does not apply; to which none does, if each counts `alone`."""
    return _join_flags([metric.scores.inapplicable for metric in metrics], np.all if alone else np.any)


def _join_flags(flags: Sequence[Flags], join: Callable[..., Any]) -> Flags:
    # Most measures have one metric, of which a large run need not copy the flags.
    return flags[0] if len(flags) == 1 else np.asarray(join(flags, axis=0))


def prepare(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    end: End = "observed",
) -> Prepared:
    """Return the numbers that the measure's row makes of the chosen samples, or of their replies."""
    if row_of(measure).of_replies and metrics[0].scores.units is not None:
        units = metrics[0].scores.units
        observations = observe_replies(measure, metrics[0].facts, units, attributes, chosen, end)
        replies = units.values[0].size if len(units.values) else 1
    else:
        replies = 1
        observations = observe_samples(measure, metrics, attributes, chosen, weights=_weights(metrics[0], chosen, end))
    return replace(row_of(measure).prepare(observations, end), heaviest=attributes.largest_group * replies)


def observe_samples(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    *,
    weights: Floats | None = None,
) -> Observations:
    """Return one value a sample and metric, of the chosen samples."""
    # Without copies where all are.
    places = slice(None) if chosen.all() else chosen
    return Observations(
        measure=measure,
        facts=tuple(metric.facts for metric in metrics),
        columns=tuple(
            Column(metric.scores.values[places], metric.scores.low[places], metric.scores.high[places])
            for metric in metrics
        ),
        lost=lost_samples(metrics)[places],
        clusters=attributes.clusters_at(chosen),
        keys=None if attributes.keys is None else attributes.keys[places],
        monte_carlo=attributes.monte_carlo,
        expected=_choose(attributes.expected, chosen),
        slicing=choose_slices(measure, attributes, chosen),
        weights=weights,
    )


def keep_own_samples(
    plan: Plan, metrics: Sequence[ScoredMetric], attributes: SampleAttributes
) -> tuple[Sequence[ScoredMetric], SampleAttributes]:
    """Return an arm's scores and attributes without the samples of other arms, which are in its table as skipped."""
    if not any(contrast.unpaired for contrast in plan.contrasts):
        return metrics, attributes
    own = ~metrics[0].scores.skipped
    own_metrics = [ScoredMetric(facts, map_arrays(scores, lambda values: values[own])) for facts, scores in metrics]
    return own_metrics, replace(
        attributes,
        clusters=attributes.clusters_at(own),
        expected=[value for value, flag in zip(attributes.expected, own, strict=False) if flag],
        slicings={by: slicing.choose(own) for by, slicing in attributes.slicings.items()},
        keys=None if attributes.keys is None else attributes.keys[own],
    )


def _weights(metric: ScoredMetric, chosen: Flags, end: End) -> Floats | None:
    """Return the shares of the samples' replies that the metric applies to; None if it applies to all or none of each."""
    if metric.scores.own_shares is None or not metric.scores.mixed[chosen].any():
        return None
    shares = metric.scores.shares
    return (shares.observed if end == "observed" else shares.with_lost)[chosen]


def choose_slices(measure: Measure, attributes: SampleAttributes, chosen: Flags) -> Slicing | None:
    """Return the slices of the chosen samples by the field that the measure names; None for a measure without one."""
    if measure.by is None or not row_of(measure).by_field:
        return None
    slicing = attributes.slicings.get(measure.by)
    return None if slicing is None else slicing.choose(chosen)


def observe_replies(
    measure: Measure, facts: MetricFacts, units: Units, attributes: SampleAttributes, chosen: Flags, end: End
) -> Observations:
    """Return the single replies to the chosen samples; with the lost ones at the ends, without them as observed."""
    shape = int(chosen.sum()), -1
    values, low, high = (part[chosen].reshape(shape) for part in (units.values, units.low, units.high))
    there = ~np.isnan(values if end == "observed" else low)
    samples, clusters = np.nonzero(there)[0], attributes.clusters_at(chosen)
    return Observations(
        measure=measure,
        facts=(facts,),
        columns=(Column(values[there], low[there], high[there]),),
        lost=units.lost[chosen].reshape(shape)[there],
        samples=samples,
        at_looks=attributes.look_alpha is not None,
        clusters=None if clusters is None else clusters[samples],
        keys=None if attributes.keys is None else attributes.keys[chosen][samples],
        monte_carlo=attributes.monte_carlo,
    )


def estimate_values(
    measure: Measure,
    facts: Sequence[MetricFacts],
    values: Sequence[Floats],
    clusters: Clusters | None = None,
    *,
    level: float,
    expected: Sequence[Any] = (),
) -> Measured:
    """Estimate a measure from one value a sample and metric, none of them missing.

    A measure of replies also takes samples x replies, NaN if a reply is missing.
    """
    return row_of(measure).estimate(_prepare_values(measure, facts, values, clusters, expected), level)


def compare_prepared(
    measure: Measure, facts: MetricFacts, candidate: Prepared, baseline: Prepared, *, alpha: float
) -> Difference | None:
    """Return the difference; a positive one means that the candidate is better, in either direction of the statistic."""
    row = comparison_row(measure, facts)
    better = row.higher_is_better(measure, facts)
    difference = row.difference(candidate, baseline, alpha) if better else row.difference(baseline, candidate, alpha)
    return without_unfounded_proof(measure, facts, difference)


def without_unfounded_proof(measure: Measure, facts: MetricFacts, difference: Difference | None) -> Difference | None:
    """Return the difference without proof, with the reason, if the metric's declaration allows none.

    A permutation test that the arms are alike needs no bounds, so its p-value and what is planned by it stay.
    """
    reason = comparison_row(measure, facts).no_proof(measure, facts)
    if difference is None or not reason or difference.proof_p is not None:
        return difference
    unproven = replace(difference, lower=None, upper=None, note=reason)
    if difference.alikeness is not None:
        return unproven
    return replace(unproven, p_value=None, p_exact=None, deviation=None, detectable=None, samples=None)


def _prepare_values(
    measure: Measure,
    facts: Sequence[MetricFacts],
    values: Sequence[Floats],
    clusters: Clusters | None,
    expected: Sequence[Any],
) -> Prepared:
    if np.ndim(values[0]) > 1:
        units = Units(values[0], values[0], values[0], np.zeros(np.shape(values[0]), dtype=bool))
        everything = np.ones(len(values[0]), dtype=bool)
        observations = observe_replies(measure, facts[0], units, SampleAttributes(clusters), everything, "observed")
        return row_of(measure).prepare(observations, "observed")
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
