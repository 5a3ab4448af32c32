"""The difference of two arms' means of their own replies, where a metric applies to other samples in each."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.analyse import crossed
from pytest_crucible.analyse.conditional import LOOKS, ZEROS, Arm
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import (
    Clusters,
    SampleAttributes,
    ScoredMetric,
    observe_replies,
    observe_samples,
    row_of,
)
from pytest_crucible.measures import conditional
from pytest_crucible.measures.row import Difference, End, Numbers, counted_clusters
from pytest_crucible.measures.statistic import GEOMETRIC_MEANS
from pytest_crucible.measures.table import STATISTICS, comparison_row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Measure
from pytest_crucible.stats.means.ratio_bounds import RatioArm
from pytest_crucible.stats.resampling.draws import Keys


def compare_arms(
    measure: Measure,
    arms: tuple[Arm, Arm],
    attributes: SampleAttributes,
    chosen: Flags,
    ends: tuple[End, End],
    alpha: float,
) -> Difference | None:
    """Return the difference at given ends of both arms, positive where the candidate is better; None if it could be anything."""
    if not chosen.any():
        return None
    facts, clusters = arms[0][0].facts, attributes.clusters_at(chosen)
    by_ratio = comparison_row(measure, facts) is not STATISTICS[measure.statistic]
    sides = [_values(measure, arm[0], chosen, end) for arm, end in zip(arms, ends, strict=True)]
    if not all(np.isfinite(side.values).all() for side in sides):
        return None
    bounds = sides[0].bounds
    if by_ratio:
        if min(side.values.min(initial=1.0) for side in sides) <= 0:
            return conditional.unknown(int(chosen.sum()), counted_clusters(clusters), ZEROS)
        sides, bounds = [replace(side, values=np.log(side.values)) for side in sides], _log_bounds(bounds)
    first, second = [side.join(clusters) for side in sides]
    if not row_of(measure).higher_is_better(measure, facts):
        first, second = second, first
    pair = conditional.Pairing(
        first=first,
        second=second,
        bounds=bounds,
        samples=int(chosen.sum()),
        clusters=counted_clusters(clusters),
        ratio=GEOMETRIC_MEANS if by_ratio else "",
        keys=_unit_keys(attributes, chosen),
        monte_carlo=attributes.monte_carlo,
    )
    difference = conditional.compare(pair, alpha)
    if attributes.random_factors:
        return crossed.without_interval(difference, "difference of conditional means", attributes)
    if attributes.look_alpha is not None:
        return conditional.without_proof(difference, LOOKS)
    # A reach is about the two values of one sample, and these means are of other samples.
    no_proof = comparison_row(measure, facts).no_proof(measure, replace(facts, reach=None))
    return replace(difference, note=difference.note or no_proof)


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """The values of one arm that count, each with its sample, numbered among the chosen ones, and its weight."""

    values: Floats
    samples: Clusters
    weights: Floats
    bounds: Numbers
    count: int

    def join(self, clusters: Clusters | None) -> RatioArm:
        """Return the sums of each sample, or of each group."""
        units = self.samples if clusters is None else np.unique(clusters, return_inverse=True)[1][self.samples]
        size = self.count if clusters is None else np.unique(clusters).size
        totals = np.bincount(units, weights=self.weights * self.values, minlength=size)
        sizes = np.bincount(units, weights=self.weights, minlength=size)
        return RatioArm(np.asarray(totals, dtype=np.float64), np.asarray(sizes, dtype=np.float64))


def _values(measure: Measure, metric: ScoredMetric, chosen: Flags, end: End) -> _Values:
    """Return the values of samples, weighted by the share of their replies that the metric applies to; for a rate of replies."""
    scores, row = metric.scores, row_of(measure)
    if row.of_replies and scores.units is not None:
        observations = observe_replies(measure, metric.facts, scores.units, SampleAttributes(), chosen, end)
        samples = observations.samples
        assert samples is not None, "the entries are replies"
        observations, weights = replace(observations, samples=None), np.ones(samples.size)
    else:
        shares = scores.shares.observed if end == "observed" else scores.shares.with_lost
        inside = np.nan_to_num(shares[chosen])
        samples = np.flatnonzero(inside)
        inside_samples = np.zeros_like(chosen)
        inside_samples[np.flatnonzero(chosen)[samples]] = True
        observations, weights = observe_samples(measure, [metric], SampleAttributes(), inside_samples), inside[samples]
    prepared = row.prepare(observations, end)
    return _Values(prepared.values, samples, weights, prepared.bounds, int(chosen.sum()))


def _unit_keys(attributes: SampleAttributes, chosen: Flags) -> Keys | None:
    """Return a key for each sample, or for each group, that of its samples which is the smallest."""
    if attributes.keys is None:
        return None
    keys, clusters = attributes.keys[chosen], attributes.clusters_at(chosen)
    if clusters is None:
        return keys
    names, codes = np.unique(clusters, return_inverse=True)
    smallest = np.full(names.size, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(smallest, codes, keys)
    return smallest


def _log_bounds(bounds: Numbers) -> Numbers:
    low, high = bounds
    return (math.log(low), math.log(high)) if low > 0 and math.isfinite(high) else (-math.inf, math.inf)
