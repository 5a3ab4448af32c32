"""What the data say about the candidate against one baseline, pair by pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.questions import Clusters, numeric
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.records import Comparison, Contrast, EffectSize, Evidence, MetricFacts, Reading


def compare(
    contrast: Contrast,
    facts: MetricFacts,
    candidate: str,
    scores: tuple[Scores, Scores],
    clusters: Clusters | None,
    *,
    alpha: float,
    questions: int,
) -> Comparison:
    """Compare (candidate, baseline) on the samples that both have; `questions` comparisons share the session's alpha."""
    ours, theirs = scores
    pairs = ours.seen & theirs.seen
    lost = (ours.lost | theirs.lost) & ~ours.inapplicable & ~theirs.inapplicable
    pair = _oriented(facts, ours.values[pairs], theirs.values[pairs])
    grouped = None if clusters is None else clusters[pairs]
    compared = _compared(facts, *pair, grouped, alpha)
    observed, method = _reading(facts, *pair, grouped, alpha)
    worst, best = _extremes(facts, scores, clusters, alpha) if lost.any() else (observed, observed)
    too_few = _too_few(compared, contrast, alpha)
    if too_few:
        observed, worst, best = (_without_proof(reading, contrast) for reading in (observed, worst, best))
    return Comparison(
        contrast=contrast,
        candidate=candidate,
        pairs=int(pairs.sum()),
        lost=int(lost.sum()),
        clusters=compared.clusters if compared else None,
        difference=compared.estimate if compared else None,
        interval=compared.interval if compared else None,
        p_value=compared.p_value if compared else None,
        p_exact=compared.p_exact if compared else None,
        method=compared.method if compared else "no pairs",
        evidence=Evidence(observed=observed, worst=worst, best=best, method=method),
        detectable=_detectable(compared, alpha / questions),
        needed=_needed(compared, contrast, facts, method, alpha=alpha, questions=questions),
        effects=() if compared is None else _effects(compared),
        note=too_few or (compared.note if compared else "no sample was answered by both arms"),
    )


def _oriented(facts: MetricFacts, ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Candidate and baseline, swapped where lower is better: then a positive difference is an improvement everywhere."""
    return (ours, theirs) if facts.direction == "higher" else (theirs, ours)


def _extremes(
    facts: MetricFacts, scores: tuple[Scores, Scores], clusters: Clusters | None, alpha: float
) -> tuple[Reading, Reading]:
    """The readings if every lost value were as bad, and as good, for the candidate as it can be."""
    ours, theirs = scores
    known: Flags = ~ours.inapplicable & ~theirs.inapplicable
    grouped = None if clusters is None else clusters[known]
    low = _oriented(facts, ours.low[known], theirs.high[known])
    high = _oriented(facts, ours.high[known], theirs.low[known])
    readings = _reading(facts, *low, grouped, alpha)[0], _reading(facts, *high, grouped, alpha)[0]
    return readings if facts.direction == "higher" else readings[::-1]


def _compared(
    facts: MetricFacts, candidate: Floats, baseline: Floats, clusters: Clusters | None, alpha: float
) -> stats.Comparison | None:
    if not len(candidate) or not (np.isfinite(candidate).all() and np.isfinite(baseline).all()):
        return None
    bounds = (facts.low, facts.high)
    kind = numeric(facts.kind)
    return stats.compare(baseline, candidate, kind=kind, bounds=bounds, clusters=clusters, alpha=alpha)


def _reading(
    facts: MetricFacts, candidate: Floats, baseline: Floats, clusters: Clusters | None, alpha: float
) -> tuple[Reading, str]:
    """The difference with its one-sided bounds, and the method of these."""
    compared = _compared(facts, candidate, baseline, clusters, alpha)
    if compared is None:  # no pairs, or a lost value without bounds, which could be anything
        return Reading(value=None, lower=None, upper=None), "none"
    bounds = stats.difference_bounds(
        baseline, candidate, kind=numeric(facts.kind), bounds=(facts.low, facts.high), clusters=clusters, alpha=alpha
    )
    reading = Reading(value=compared.estimate, lower=bounds.low, upper=bounds.high, p_value=compared.p_value)
    return reading, bounds.method


def _effects(compared: stats.Comparison) -> tuple[EffectSize, ...]:
    sizes = [one for one in (compared.effect, *compared.effects) if one is not None]
    return tuple(EffectSize(name=one.name, value=one.value, interval=one.interval) for one in sizes)


def _detectable(compared: stats.Comparison | None, alpha: float) -> float | None:
    """From how much the pairs differ in these data."""
    if compared is None or compared.deviation is None or compared.n < 2:
        return None
    if compared.method == "tango":
        return stats.detectable_paired_proportions(compared.n, _discordance(compared), alpha=alpha)
    return stats.detectable_mean(compared.n, compared.deviation, alpha=alpha)


def _discordance(compared: stats.Comparison) -> float:
    """Share of pairs that disagree: the variance of the differences plus their squared mean."""
    n, deviation, difference = compared.n, compared.deviation or 0.0, compared.estimate or 0.0
    return min(1.0, deviation**2 * (n - 1) / n + difference**2)


def _too_few(compared: stats.Comparison | None, contrast: Contrast, alpha: float) -> str:
    """Why these samples could prove nothing, whatever they showed; empty when they could."""
    if compared is None or compared.estimate is None or compared.p_value is None:
        return ""
    if contrast.margin is not None:
        # Below this floor a score interval errs far more often than it says: three samples can agree by luck.
        floor = stats.samples_for_zero(min(contrast.margin, 0.999), alpha=alpha)
        small = compared.method == "tango" and contrast.alternative != "superior" and compared.n < floor
        return (
            f"{compared.n} samples are fewer than the {floor} that a margin of {contrast.margin:g} needs"
            if small
            else ""
        )
    equal = compared.deviation == 0 and compared.estimate and compared.p_value > alpha
    several = f"{compared.clusters or compared.n} {'groups' if compared.clusters else 'samples'}"
    return f"all differences are equal, and {several} are too few to prove one" if equal else ""


def _without_proof(reading: Reading, contrast: Contrast) -> Reading:
    """Without what the verdict would rest on: the bounds where there is a margin, the p-value where there is none."""
    return replace(reading, p_value=None) if contrast.margin is None else replace(reading, lower=None, upper=None)


def _needed(
    compared: stats.Comparison | None,
    contrast: Contrast,
    facts: MetricFacts,
    method: str,
    *,
    alpha: float,
    questions: int,
) -> int | None:
    """About how many samples would settle it with 80 % power, were the estimate the truth."""
    if compared is None or not compared.deviation or compared.estimate is None:
        return None
    if contrast.margin is None:
        distance, tail, pseudo = abs(compared.estimate), alpha / questions / 2, 0.0
    else:
        distance, tail = abs(_from_margin(compared.estimate, contrast)), alpha
        size = compared.n / compared.clusters if compared.clusters else 1.0  # pseudo-observations come in whole groups
        pseudo = 2 * (size * (facts.high - facts.low)) ** 2 if method.startswith("augmented") else 0.0
    return stats.samples_for_margin(distance, compared.deviation, alpha=tail, pseudo=pseudo) if distance else None


def _from_margin(difference: float, contrast: Contrast) -> float:
    """How far the difference is from where the verdict turns."""
    margin = contrast.margin or 0.0
    if contrast.alternative == "equivalent":
        return margin - abs(difference)
    return difference - margin if contrast.alternative == "superior" else difference + margin
