"""Metrics that apply to some replies only: which samples a comparison of them is about, and the comparison itself.

The estimand is declared before the run (`MetricFacts.applies`). Scores decide only whether the declaration was right. Without a
declaration the estimand is that of replies, each arm's mean over those that the metric applies to. Where it applies to the same
samples in both arms, that is the difference over pairs too, which has the stronger methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_crucible.analyse import crossed
from pytest_crucible.analyse.scores import Flags, Floats, Scores
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
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.stats.means.ratio_bounds import RatioArm
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.resampling.draws import Keys

Arm = Sequence[ScoredMetric]
LOOKS = "the metric applies to some replies only, and --crucible-stop has no bounds for that: leave it out"
ZEROS = "some values are 0, which have no geometric mean: compare a rate, or write a margin in the metric's units"


def applies_differently(*arms: Arm) -> int:
    """Return to how many samples a metric applies in one arm, and not, or not as often, in another where it is known, too."""
    differs = np.zeros(len(arms[0][0].scores.values), dtype=bool)
    for number in range(len(arms[0])):
        shares = [arm[number].scores.shares.observed for arm in arms]
        for other in shares[1:]:
            # NaN, a lost sample, differs from nothing.
            differs |= np.abs(shares[0] - other) > 0
    return int(differs.sum())


def declaration_problem(*arms: Arm) -> str:
    """Explain a metric that is declared to apply to samples, and was found to depend on the reply; empty if none was."""
    for number, (facts, scores) in enumerate(arms[0]):
        if facts.applies != "sample":
            continue
        count = applies_differently(*([arm[number]] for arm in arms))
        if count:
            return _wrong_declaration(facts.name, f"to {quantity(count, 'sample')} in one arm only")
        some = int(scores.mixed.sum())
        if some:
            return _wrong_declaration(facts.name, f"to some replies only of {quantity(some, 'sample')}")
    return ""


def _wrong_declaration(name: str, where: str) -> str:
    return (
        f'{name!r} is declared to apply to samples, and applied {where}: declare @metric(applies="reply"), which measures each '
        "arm on the replies that it applies to"
    )


def have_other_samples(facts: MetricFacts, scores: Sequence[Scores]) -> bool:
    """Return whether the means of some arms are of other samples than those of others, so that no pairs compare them."""
    if facts.applies == "sample":
        return False
    return facts.applies == "reply" or applies_differently(*([ScoredMetric(facts, each)] for each in scores)) > 0


def has_unlike_sides(metric: ScoredMetric) -> bool:
    """Return whether it is a drop whose two means are of other samples."""
    pair = metric.scores.pair
    return pair is not None and have_other_samples(pair.facts, (pair.originals, pair.twins))


def is_conditional(measure: Measure, *arms: Arm) -> bool:
    """Return whether the arms are compared by the means of their own replies; not whether such a comparison is needed."""
    row = row_of(measure)
    return (
        row.is_mean
        and not row.is_total
        and have_other_samples(arms[0][0].facts, [metrics[0].scores for metrics in arms])
    )


def pairs_problem(measure: Measure, *arms: Arm) -> str:
    """Explain why a statistic that needs pairs cannot compare the arms; empty if the metrics apply to the same samples in both."""
    if row_of(measure).of_slices or declaration_problem(*arms):
        return ""
    if any(has_unlike_sides(metric) for arm in arms for metric in arm):
        return f"{measure.expression} applies to a reply and not to its twin, or the reverse: set a target for each arm"
    count = applies_differently(*arms)
    if not count or is_conditional(measure, *arms):
        return ""
    names = " and ".join(repr(metric.facts.name) for metric in arms[0])
    title = row_of(measure).title
    return (
        f"{names} applied to {quantity(count, 'sample')} in one arm only, and a {title} is compared on samples of both arms: "
        "set a target for each arm, or score those replies"
    )


def paired_samples(ours: Arm, theirs: Arm) -> tuple[Flags, Flags]:
    """Return the samples whose replies are known in both arms, and with the lost ones, where the metric may apply in either."""
    first, second = ours[0].scores.shares, theirs[0].scores.shares
    has_reply = ours[0].scores.known & theirs[0].scores.known
    of_candidate, of_baseline = (has_reply & (shares.observed > 0) for shares in (first, second))
    # A candidate without a value has no mean, and nothing is compared.
    pairs = of_candidate | of_baseline if of_candidate.any() else of_candidate
    return pairs, (first.with_lost > 0) | (second.with_lost > 0)


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
