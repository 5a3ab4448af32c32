"""The candidate against one baseline, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible import stats
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
)
from pytest_crucible.records import BoundedValue, Comparison, Contrast, Evidence, MetricFacts
from pytest_crucible.stats.measures.row import Difference, End

NOTHING = BoundedValue(value=None, lower=None, upper=None)


def compare(
    contrast: Contrast,
    candidate: str,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    *,
    alpha: float,
    family_size: int,
) -> Comparison:
    """Compare (candidate, baseline) on the samples that both have; `family_size` comparisons share the session's alpha."""
    ours, theirs = arms
    pairs = scored_samples(ours) & scored_samples(theirs)
    applicable = ~inapplicable_samples(ours) & ~inapplicable_samples(theirs)
    # Lost in either arm: the pair is incomplete, and its difference could be anything in the range.
    lost = (lost_samples(ours) | lost_samples(theirs)) & applicable
    difference = _difference(contrast, arms, attributes, pairs, ("observed", "observed"), alpha)
    observed = worst = best = _bounded_value(difference)
    if lost.any():
        low, high = _ends(contrast, ours)
        # Worst for the candidate: its own lost values at the bad end, those of the baseline at the good end.
        worst = _bounded_value(_difference(contrast, arms, attributes, applicable, (low, high), alpha))
        best = _bounded_value(_difference(contrast, arms, attributes, applicable, (high, low), alpha))
    too_few = _too_few(difference, contrast, alpha)
    if too_few:
        observed, worst, best = (_without_proof(value, contrast) for value in (observed, worst, best))
    return Comparison(
        contrast=contrast,
        candidate=candidate,
        pairs=int(pairs.sum()),
        lost=int(lost.sum()),
        clusters=difference.clusters if difference else None,
        difference=difference.value if difference else None,
        interval=difference.interval if difference else None,
        p_value=difference.p_value if difference else None,
        p_exact=difference.p_exact if difference else None,
        method=difference.method if difference else "no pairs",
        evidence=Evidence(
            observed=observed, worst=worst, best=best, method=difference.bounds_method if difference else "none"
        ),
        detectable=_detectable(difference, alpha / family_size),
        needed=_needed(difference, contrast, alpha=alpha, family_size=family_size),
        effects=difference.effects if difference else (),
        note=too_few or (difference.note if difference else _problem(contrast, arms, attributes, pairs)),
    )


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
    """Compare (candidate, baseline) by the mean of one metric."""
    ours, theirs = ([ScoredMetric(facts, arm_scores)] for arm_scores in scores)
    attributes = SampleAttributes(clusters)
    return compare(contrast, candidate, (ours, theirs), attributes, alpha=alpha, family_size=family_size)


def _ends(contrast: Contrast, metrics: Sequence[ScoredMetric]) -> tuple[End, End]:
    """The ends of the statistic that are worst and best for an arm."""
    better = row_of(contrast).higher_is_better(contrast, metrics[0].facts)
    return ("low", "high") if better else ("high", "low")


def _difference(
    contrast: Contrast,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    chosen: Flags,
    ends: tuple[End, End],
    alpha: float,
) -> Difference | None:
    """The difference at given ends of both arms; positive where the candidate is better, whatever the direction."""
    candidate, baseline = (
        prepare(contrast, metrics, attributes, chosen, end) for metrics, end in zip(arms, ends, strict=True)
    )
    return compare_prepared(contrast, arms[0][0].facts, candidate, baseline, alpha=alpha)


def _bounded_value(difference: Difference | None) -> BoundedValue:
    """Nothing without pairs, and with a lost value without bounds, which could be anything."""
    if difference is None:
        return NOTHING
    return BoundedValue(
        value=difference.value, lower=difference.lower, upper=difference.upper, p_value=difference.p_value
    )


def _problem(
    contrast: Contrast,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    pairs: Flags,
) -> str:
    """Explain a missing difference."""
    problems = [prepare(contrast, metrics, attributes, pairs).problem for metrics in arms] if pairs.any() else []
    return next(filter(None, problems), "no sample was answered by both arms")


def _detectable(difference: Difference | None, alpha: float) -> float | None:
    """The smallest difference that as many pairs show with 80 % power, from how much pairs differ in these data."""
    if difference is None or difference.deviation is None or difference.n < 2:
        return None
    if difference.discordance is not None:
        return stats.detectable_paired_proportions(difference.n, difference.discordance, alpha=alpha)
    return stats.detectable_mean(difference.n, difference.deviation, alpha=alpha)


def _too_few(difference: Difference | None, contrast: Contrast, alpha: float) -> str:
    """Why these samples could prove nothing, whatever they showed; empty when they could."""
    if difference is None or difference.value is None or difference.p_value is None:
        return ""
    if contrast.margin is not None:
        # Below this floor a score interval errs far more often than it says: three samples can agree by luck.
        floor = stats.samples_for_zero(min(contrast.margin, 0.999), alpha=alpha)
        small = difference.discordance is not None and contrast.alternative != "superior" and difference.n < floor
        return (
            f"{difference.n} samples are fewer than the {floor} that a margin of {contrast.margin:g} needs"
            if small
            else ""
        )
    # Equal differences leave no scatter to estimate an error from: what they prove depends on their number alone.
    equal = difference.deviation == 0 and difference.value and difference.p_value > alpha
    several = f"{difference.clusters or difference.n} {'groups' if difference.clusters else 'samples'}"
    return f"all differences are equal, and {several} are too few to prove one" if equal else ""


def _without_proof(value: BoundedValue, contrast: Contrast) -> BoundedValue:
    """Remove what the verdict would rest on: the bounds with a margin, the p-value without one."""
    return replace(value, p_value=None) if contrast.margin is None else replace(value, lower=None, upper=None)


def _needed(difference: Difference | None, contrast: Contrast, *, alpha: float, family_size: int) -> int | None:
    """About how many samples would settle it with 80 % power, were the estimate the truth."""
    if difference is None or not difference.deviation or difference.value is None:
        return None
    if contrast.margin is None:
        distance, tail, pseudo = abs(difference.value), alpha / family_size / 2, 0.0
    else:
        distance, tail = abs(_distance_to_margin(difference.value, contrast)), alpha
        # Pseudo-observations come in whole groups.
        size = difference.n / difference.clusters if difference.clusters else 1.0
        pseudo = 2 * (size * difference.span) ** 2 if difference.bounds_method.startswith("augmented") else 0.0
    return stats.samples_for_margin(distance, difference.deviation, alpha=tail, pseudo=pseudo) if distance else None


def _distance_to_margin(difference: float, contrast: Contrast) -> float:
    """Return the distance from the difference to where the verdict turns."""
    margin = contrast.margin or 0.0
    if contrast.alternative == "equivalent":
        return margin - abs(difference)
    return difference - margin if contrast.alternative == "superior" else difference + margin
