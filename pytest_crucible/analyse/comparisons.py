"""Warn where neighbouring samples of the dataset resemble each other: independent samples would be fewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_crucible.analyse import conditional, conditional_means, crossed, unpaired
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.statistics import (
    Clusters,
    SampleAttributes,
    ScoredMetric,
    compare_prepared,
    inapplicable_samples,
    lost_samples,
    prepare,
    row_of,
    scored_samples,
    without_unfounded_proof,
)
from pytest_crucible.measures import sequences
from pytest_crucible.measures.row import Difference, End, Prepared
from pytest_crucible.measures.table import GEOMETRIC, comparison_row, contrast_problem
from pytest_crucible.measures.values import largest_change, limit_changes
from pytest_crucible.records import BoundedValue, Comparison, Contrast, Evidence, MetricFacts, Ratio
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.resampling.draws import resolve_for


def order_note(
    contrast: Contrast, facts: MetricFacts, candidate: Prepared, baseline: Prepared, attributes: SampleAttributes
) -> str:
    """Return a warning about the differences of a mean in the order of the dataset; empty where there is nothing to warn about.

    Samples with groups, whose likeness is counted, and runs in another order have none.
    """
    is_ordered = attributes.clusters is None and attributes.look_alpha is None and not attributes.random_factors
    arms = candidate.values, baseline.values
    if not is_ordered or not row_of(contrast).is_mean or arms[0].size != arms[1].size:
        return ""
    if comparison_row(contrast, facts) is GEOMETRIC:
        with np.errstate(divide="ignore"):
            arms = np.log(arms[0]), np.log(arms[1])
    with np.errstate(invalid="ignore"):
        differences = arms[0] - arms[1]
    if not np.isfinite(differences).all():
        return ""
    # It needs scipy, which a session without a comparison does not load.
    from pytest_crucible.stats.checks import is_noteworthy, serial_correlation

    serial = serial_correlation(differences, rng=attributes.monte_carlo.seed)
    if serial is None or not is_noteworthy(serial):
        return ""
    return (
        f"{contrast.expression}: samples that follow each other in the dataset resemble each other (correlation "
        f"{serial.correlation:.2f}), so that {serial.n:,} count like about {max(serial.effective_n, 1):,.0f} independent ones, and "
        "p-values and bounds are too sure: give the samples groups"
    )


Arms = tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]]
"""The metrics of a measure with their scores in the candidate and the baseline."""
NOTHING = BoundedValue(value=None)
OBSERVED: tuple[End, End] = ("observed", "observed")


def compare(
    contrast: Contrast,
    candidate: str,
    arms: Arms,
    attributes: SampleAttributes,
    *,
    alpha: float,
    family_size: int,
    plans: bool = True,
) -> Comparison:
    """Compare (candidate, baseline) on the samples that both have; `family_size` comparisons share the session's alpha.

    With `plans`, it also has the difference that they could show, and the number of samples that would decide.
    """
    ours, theirs = arms
    seed = attributes.monte_carlo.seed
    attributes = replace(attributes, monte_carlo=resolve_for(alpha, family_size, seed))
    pairs, applicable = paired_samples(contrast, ours, theirs)
    # Lost in either arm: the pair is incomplete, and its difference could be anything in the range.
    lost = (lost_samples(ours) | lost_samples(theirs)) & applicable
    declared = conditional.declaration_problem(ours, theirs)
    no_pairs = unpaired.problem(contrast) if contrast.unpaired else conditional.pairs_problem(contrast, ours, theirs)
    undecided = Comparison(
        contrast=contrast,
        candidate=candidate,
        pairs=int(pairs.sum()),
        lost=int(lost.sum()),
        method="none",
        evidence=Evidence(observed=NOTHING, worst=NOTHING, best=NOTHING, method="none"),
        note=no_pairs,
        suite_error=declared,
    )
    if declared or no_pairs:
        return undecided
    facts, invalid, order = ours[0].facts, "", ""
    if pairs.any():
        of_arms = [pairs & scored_samples(metrics) if contrast.unpaired else pairs for metrics in arms]
        first, second = (prepare(contrast, *arm) for arm in zip(arms, (attributes, attributes), of_arms, strict=True))
        values = {candidate: first, contrast.baseline: second}
        invalid = comparison_row(contrast, facts).check_values(contrast, values)
        order = "" if contrast.unpaired else order_note(contrast, facts, first, second, attributes)
    difference = None if invalid else compare_pair(contrast, arms, attributes, pairs, OBSERVED, alpha)
    observed = worst = best = bounded_value(difference)
    if lost.any() and not invalid:
        worst, best = _bounds_with_lost(contrast, arms, attributes, applicable, alpha)
    better = row_of(contrast).higher_is_better(contrast, facts)
    result = replace(
        undecided,
        higher_is_better=better,
        evidence=replace(undecided.evidence, observed=observed, worst=worst, best=best),
        suite_error=(contrast_problem(contrast, facts) if pairs.any() else "") or invalid,
    )
    if difference is None:
        note = invalid or _problem(contrast, arms, attributes, pairs, applicable)
        return replace(result, method="no pairs", note=note)
    result = with_difference(result, difference, attributes.look_alpha or alpha, order)
    if not plans:
        return result
    # Its power analysis needs most of scipy, which a session without a comparison does not load.
    from pytest_crucible.analyse.next_run import detectable_difference, detectable_falls, samples_to_decide

    level = alpha / family_size if contrast.shares_alpha else alpha
    falls = None if contrast.unpaired else detectable_falls(difference, contrast, theirs, attributes, pairs, level)
    return replace(
        result,
        detectable=detectable_difference(difference, level),
        detectable_falls=falls,
        needed=samples_to_decide(difference, contrast, alpha=alpha, family_size=family_size),
    )


def with_difference(result: Comparison, difference: Difference, bound_alpha: float, order: str = "") -> Comparison:
    """Return the comparison with the difference to show. `bound_alpha` is that of each bound; `order` is added to its notes."""
    alikeness, interval = difference.alikeness, _interval(result.contrast, difference, bound_alpha)
    return replace(
        result,
        clusters=difference.clusters,
        difference=difference.value,
        interval=interval,
        p_value=difference.p_value,
        p_exact=difference.p_exact,
        proof_p=_proof_p(difference),
        arrangements=alikeness.arrangements if alikeness else None,
        is_exact=alikeness.exact if alikeness else False,
        method=difference.method,
        evidence=replace(result.evidence, method=difference.bounds_method),
        effects=difference.effects,
        note="; ".join(filter(None, (difference.note, order))),
        ratio=_ratio(difference, interval, result.higher_is_better),
    )


def weigh_evidence(
    contrast: Contrast, arms: Arms, attributes: SampleAttributes, *, alpha: float, family_size: int
) -> Evidence:
    """Return the evidence for a comparison as `compare` has it, without what it plans and shows beside it."""
    ours, theirs = arms
    attributes = replace(attributes, monte_carlo=resolve_for(alpha, family_size, attributes.monte_carlo.seed))
    pairs, applicable = paired_samples(contrast, ours, theirs)
    difference = compare_pair(contrast, arms, attributes, pairs, OBSERVED, alpha)
    observed = worst = best = bounded_value(difference)
    if ((lost_samples(ours) | lost_samples(theirs)) & applicable).any():
        worst, best = _bounds_with_lost(contrast, arms, attributes, applicable, alpha)
    return Evidence(
        observed=observed, worst=worst, best=best, method=difference.bounds_method if difference else "none"
    )


def _bounds_with_lost(
    contrast: Contrast, arms: Arms, attributes: SampleAttributes, applicable: Flags, alpha: float
) -> tuple[BoundedValue, BoundedValue]:
    """Return the difference with the lost values as bad, and as good, as possible for the candidate."""
    low, high = worst_and_best(contrast, arms[0][0].facts)
    # Worst for the candidate: its own lost values at the bad end, those of the baseline at the good end.
    worst = bounded_value(compare_pair(contrast, arms, attributes, applicable, (low, high), alpha))
    best = bounded_value(compare_pair(contrast, arms, attributes, applicable, (high, low), alpha))
    return worst, best


def paired_samples(
    contrast: Contrast, ours: Sequence[ScoredMetric], theirs: Sequence[ScoredMetric]
) -> tuple[Flags, Flags]:
    """Return the samples that both arms scored, and those that the metrics apply to."""
    if contrast.unpaired:
        return unpaired.samples_of_arms(ours, theirs)
    if conditional.is_conditional(contrast, ours, theirs):
        return conditional.paired_samples(ours, theirs)
    if not row_of(contrast).of_slices:
        pairs = scored_samples(ours) & scored_samples(theirs)
        return pairs, ~inapplicable_samples(ours) & ~inapplicable_samples(theirs)
    # A metric such as "right if selected" applies in each arm to other samples, and each arm's rates are of its own.
    both = [*ours, *theirs]
    has_reply = np.all([metric.scores.known for metric in both], axis=0)
    return scored_samples(both, alone=True) & has_reply, ~inapplicable_samples(both, alone=True)


def compare_means(
    contrast: Contrast,
    facts: MetricFacts,
    candidate: str,
    scores: tuple[Scores, Scores],
    clusters: Clusters | None,
    *,
    alpha: float,
    family_size: int,
) -> Comparison:
    """Compare (candidate, baseline) by the mean of one metric; its reach is about the arms that a suite compares, not these."""
    ours, theirs = ([ScoredMetric(replace(facts, reach=None), arm_scores)] for arm_scores in scores)
    attributes = SampleAttributes(clusters)
    return compare(contrast, candidate, (ours, theirs), attributes, alpha=alpha, family_size=family_size)


def worst_and_best(contrast: Contrast, facts: MetricFacts) -> tuple[End, End]:
    """Return the ends of the statistic that are worst and best for an arm."""
    better = row_of(contrast).higher_is_better(contrast, facts)
    return ("low", "high") if better else ("high", "low")


def compare_pair(
    contrast: Contrast, arms: Arms, attributes: SampleAttributes, chosen: Flags, ends: tuple[End, End], alpha: float
) -> Difference | None:
    """Return the difference at given ends of both arms; a positive one means that the candidate is better."""
    if contrast.unpaired:
        return unpaired.compare_arms(contrast, arms, attributes, chosen, ends, alpha)
    if conditional.is_conditional(contrast, *arms):
        return conditional_means.compare_arms(contrast, arms, attributes, chosen, ends, alpha)
    candidate, baseline = prepare_pair(contrast, arms, attributes, chosen, ends)
    if attributes.look_alpha is not None:
        return _at_every_look(contrast, arms[0][0].facts, candidate, baseline, alpha, attributes.look_alpha)
    plain = compare_prepared(contrast, arms[0][0].facts, candidate, baseline, alpha=alpha)
    if plain is None or not attributes.random_factors:
        return plain
    counted = crossed.difference(contrast, arms, attributes, chosen, ends, plain, alpha)
    return without_unfounded_proof(contrast, arms[0][0].facts, counted)


def prepare_pair(
    contrast: Contrast, arms: Arms, attributes: SampleAttributes, chosen: Flags, ends: tuple[End, End]
) -> tuple[Prepared, Prepared]:
    """Return the numbers of both arms at given ends, with lost values within the reach of their pair."""
    candidate, baseline = (
        prepare(contrast, metrics, attributes, chosen, end) for metrics, end in zip(arms, ends, strict=True)
    )
    return (candidate, baseline) if ends == OBSERVED else _limit_lost(candidate, baseline, attributes)


def _limit_lost(candidate: Prepared, baseline: Prepared, attributes: SampleAttributes) -> tuple[Prepared, Prepared]:
    """Return both arms with lost values that lie within the reach of their pair."""
    if not attributes.random_factors:
        return limit_changes(candidate, baseline)
    # Where the noise of factors is counted, single replies are, and a lost one may lie anywhere in the range.
    return replace(candidate, largest_change=None), replace(baseline, largest_change=None)


def _at_every_look(
    contrast: Contrast, facts: MetricFacts, candidate: Prepared, baseline: Prepared, alpha: float, look_alpha: float
) -> Difference | None:
    """Return the difference with an interval and a p-value that hold at every look; neither without bounds."""
    if not math.isfinite(largest_change(candidate)):
        plain = compare_prepared(contrast, facts, candidate, baseline, alpha=alpha)
        names = ("interval", "p_value", "proof_p", "alikeness", "p_exact", "lower", "upper", "deviation")
        lacking: dict[str, Any] = dict.fromkeys(names)
        return plain and replace(plain, **lacking)
    better = row_of(contrast).higher_is_better(contrast, facts)
    first, second = (candidate, baseline) if better else (baseline, candidate)
    return sequences.compare_means(first, second, alpha, look_alpha)


def bounded_value(difference: Difference | None) -> BoundedValue:
    """Return the value with its bounds; none without pairs, or with a lost value of a metric without bounds."""
    if difference is None:
        return NOTHING
    return BoundedValue(
        value=difference.value,
        lower=difference.lower,
        upper=difference.upper,
        p_value=difference.p_value,
        proof_p=_proof_p(difference),
        smallest_p=difference.smallest_p,
    )


def _proof_p(difference: Difference) -> float | None:
    """Return the p-value of the bounds; a statistic that has one p-value has it of both."""
    is_only_one = difference.alikeness is None and difference.proof_p is None
    return difference.p_value if is_only_one else difference.proof_p


def _interval(contrast: Contrast, difference: Difference, bound_alpha: float) -> Interval | None:
    """Return the interval to show: where one-sided bounds decide the claim it is these, so that both always agree."""
    if difference.lower is None or difference.upper is None or not contrast.decided_by_bounds:
        return difference.interval
    # At every look the bounds have the alpha of the claim among all of them.
    level = 1 - 2 * bound_alpha
    return Interval(low=difference.lower, high=difference.upper, level=level, method=difference.bounds_method)


def _ratio(difference: Difference, interval: Interval | None, better: bool) -> Ratio | None:
    """Return the ratio of candidate to baseline. Where lower is better, the difference is that of the baseline's logarithm."""
    if not difference.ratio or difference.value is None:
        return None
    ratio = Ratio(name=difference.ratio, value=1.0, interval=None, higher_is_better=better)
    if interval is not None:
        low, high = sorted(map(ratio.of, (interval.low, interval.high)))
        interval = replace(interval, low=low, high=high)
    return replace(ratio, value=ratio.of(difference.value), interval=interval)


def _problem(contrast: Contrast, arms: Arms, attributes: SampleAttributes, pairs: Flags, applicable: Flags) -> str:
    """Explain a missing difference."""
    if contrast.slice and not applicable.any():
        return f"{contrast.metric} applies to no sample of this slice"
    if contrast.unpaired or conditional.is_conditional(contrast, *arms):
        return _silent_arm(contrast, arms)
    problems = [prepare(contrast, metrics, attributes, pairs).problem for metrics in arms] if pairs.any() else []
    return next(filter(None, problems), "no sample was answered by both arms")


def _silent_arm(contrast: Contrast, arms: Arms) -> str:
    """Say which arm has no reply with a number: the metric applies to none, or all that it applies to are lost."""
    for arm, metrics in zip(("candidate", "baseline"), arms, strict=True):
        if not scored_samples(metrics).any():
            lost = lost_samples(metrics).any()
            return f"{contrast.metric} {'has a number for' if lost else 'applies to'} no reply of the {arm}"
    return "no sample was answered by both arms"
