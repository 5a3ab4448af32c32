"""Detectable effects before a run: the smallest difference it can show, and the n that a margin needs.

How much the arms differ is not known yet, so this rests on stated assumptions. After the run the same is computed from the data.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_crucible import stats
from pytest_crucible.measures.table import GEOMETRIC, OF_MEANS, STATISTICS, comparison_row
from pytest_crucible.plan.factor_power import NORMAL, SCORES, assumed_differences, assumed_noise, effect_over_factors
from pytest_crucible.records import Contrast, DetectableEffect, MetricFacts, PairVariability, Plan
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.means.ratios import log_reach
from pytest_crucible.stats.planning.next_sample import (
    detectable_paired_change,
    samples_for_paired_change,
    samples_for_paired_margin,
)
from pytest_crucible.stats.planning.proof import detectable_by_falls

# Assumed proportion of samples on which two arms disagree about a yes-or-no metric. A choice, not a measurement: the middle of
# the 10, 20 and 30 % for which docs/statistics/planning.md draws the detectable difference.
DISCORDANCE = 0.2
# Assumed standard deviation of the difference of bounded scores, as a proportion of their range. A choice, not a measurement:
# the difference of two uniform scores has sqrt(1/6) = 0.41 if they are independent, and 0.25 at a correlation of 0.63.
DEVIATION = 0.25
# Assumed standard deviation of the logarithms of the samples' ratios. A choice, not a measurement: the two arms' seconds on one
# sample then differ by a factor of 1.5 in a third of the samples.
LOG_DEVIATION = 0.4


def detectable_effects(plan: Plan, *, alpha: float, family_size: int) -> tuple[DetectableEffect, ...]:
    """Return the difference that each comparison can show with 80 % power, when `family_size` comparisons share alpha.

    Each cluster counts as one sample. A statistic without a formula is left out.
    """
    facts = plan.facts
    effects = (
        _foresee(
            contrast,
            planned_as(contrast, facts.get(contrast.metric, MetricFacts(name=contrast.metric))),
            plan,
            alpha,
            family_size,
        )
        for contrast in plan.contrasts
        for planned_as in [STATISTICS[contrast.statistic].planned_as]
        if planned_as is not None
    )
    return tuple(replace(effect, units=_units(effect.contrast, plan)) for effect in effects if effect is not None)


def _foresee(
    contrast: Contrast, facts: MetricFacts, plan: Plan, alpha: float, family_size: int
) -> DetectableEffect | None:
    """Return the difference that a comparison can show; None of a ratio of means, whose totals nothing is known of."""
    unprovable = comparison_row(contrast, facts).no_proof(contrast, facts)
    if unprovable:
        return DetectableEffect(contrast=contrast, unprovable=unprovable)
    if comparison_row(contrast, facts) is OF_MEANS:
        return None
    effect = _effect_over_factors if plan.random_factors else _effect_of_samples
    return effect(contrast, facts, plan, alpha, family_size)


def _effect_over_factors(
    contrast: Contrast, facts: MetricFacts, plan: Plan, alpha: float, family_size: int
) -> DetectableEffect:
    # A metric whose kind shows only in the values has no range yet: it is planned as yes or no.
    ranged = replace(facts, low=0.0, high=1.0) if facts.kind is None else facts
    effect = effect_over_factors(
        contrast,
        ranged,
        plan,
        deviation=_assumed_deviation(facts),
        n=_units(contrast, plan),
        alpha=alpha,
        level=_two_sided_level(contrast, alpha, family_size),
    )
    if effect.unprovable:
        return effect
    is_binary = facts.kind in (None, "binary")
    samples = f"the arms differ on {_changes(None)}" if is_binary else _assumed_scores(facts)
    prefix = "the metric is binary, " if facts.kind is None else ""
    of_groups = ", a group changes as one," if plan.groups is not None else ""
    return replace(
        effect,
        unit="points" if is_binary else "",
        assumption=f"{prefix}{samples}{of_groups} and {assumed_noise(plan, ranged)}",
    )


def _assumed_scores(facts: MetricFacts) -> str:
    return f"differences have a standard deviation of {_assumed_deviation(facts):.2g}"


def _is_powerless(contrast: Contrast, units: int, level: float) -> bool:
    """Return whether no p-value of so few samples or groups is at the level, where a test of alikeness decides."""
    return not contrast.decided_by_bounds and 2.0 / 2.0 ** min(units, 1000) > level


def _units(contrast: Contrast, plan: Plan) -> int:
    """Return the number of samples, or groups, of a comparison; of its slice, if it has one."""
    units = plan.groups or plan.selected
    if contrast.counts:
        return max(2, min(units, round(contrast.slice_size * plan.selected / plan.planned)))
    return max(2, round(units * contrast.slice_size / plan.planned)) if contrast.slice else units


def _effect_of_samples(
    contrast: Contrast, facts: MetricFacts, plan: Plan, alpha: float, family_size: int
) -> DetectableEffect:
    n, grouped = _units(contrast, plan), plan.groups is not None or contrast.counts == "micro"
    # An improvement is decided by its one-sided bound, as with a margin of 0.
    decided = replace(contrast, margin=contrast.margin or 0.0) if contrast.alternative == "superior" else contrast
    level = _two_sided_level(decided, alpha, family_size)
    if comparison_row(contrast, facts) is GEOMETRIC:
        return _of_ratio(contrast, facts, n, alpha=alpha, level=level, grouped=grouped)
    span, deviation, is_binary = facts.largest_change, _assumed_deviation(facts), facts.kind in (None, "binary")
    needed = _samples_needed(contrast, facts, deviation, alpha, grouped=grouped)
    if contrast.relevant is not None:
        needed = _samples_to_resolve(contrast.relevant, facts, deviation, alpha, level, grouped=grouped)
    if is_binary:
        detectable = _detectable_change(decided, n, level, grouped=grouped)
        prefix = "" if facts.kind == "binary" else "the metric is binary and "
        # The size for a margin assumes equal arms, whose changes go both ways.
        assumption = f"{prefix}the arms differ on {_changes(detectable if needed is None else None)}"
    else:
        detectable = _detectable_score(decided, n, deviation, span, level)
        assumption = _assumed_scores(facts)
    if grouped:
        # The most careful assumption: a group then carries no more information than one sample.
        assumption += " and a group changes as one"
    if detectable is not None and contrast.alternative == "superior":
        detectable += contrast.margin or 0.0
    return DetectableEffect(
        contrast=contrast,
        detectable=None if detectable is None or detectable > span or _is_powerless(contrast, n, level) else detectable,
        unit="points" if is_binary else "",
        assumption=assumption,
        needed=needed,
        # A claim that a bound decides is not about a loss.
        detectable_falls=None
        if is_binary or contrast.margin is not None or contrast.alternative == "superior" or not math.isfinite(span)
        else detectable_by_falls(n, deviation, [span], alpha=level),
    )


def _detectable_change(contrast: Contrast, n: int, level: float, *, grouped: bool) -> float | None:
    """Return the smallest difference of a binary metric that is shown; None without one."""
    detectable = (
        _detectable_in_groups(contrast, n, level) if grouped else detectable_paired_change(n, DISCORDANCE, alpha=level)
    )
    if contrast.relevant is not None and detectable is not None and detectable > DISCORDANCE:
        # It would rest on another assumption than the samples that resolve the relevant difference.
        return None
    return detectable


def _detectable_score(contrast: Contrast, n: int, deviation: float, span: float, level: float) -> float | None:
    """Return the smallest difference of scores, or of groups, that is shown; with a margin, how far beyond it.

    A test shows a difference, and a bound that it exceeds a margin.
    """
    if n < 2 or contrast.margin is None:
        return stats.detectable_mean(n, deviation, alpha=level) if n > 1 else None
    scores, end = assumed_differences(deviation, span), -span - contrast.margin
    return stats.detectable_by_gaffke(scores, end=end, alpha=level / 2, times=n / SCORES)


def _assumed_deviation(facts: MetricFacts) -> float:
    """Return the assumed standard deviation of a difference."""
    return math.sqrt(DISCORDANCE) if facts.kind in (None, "binary") else DEVIATION * facts.largest_change


def _two_sided_level(contrast: Contrast, alpha: float, family_size: int) -> float:
    """Return the level of the comparison's test, as one of a two-sided test."""
    # Bonferroni, the first step of Holm: the level at which a comparison is tested if no other one is rejected before it.
    # One bound decides a margin, and each bound has all of alpha.
    return alpha / max(family_size, 1) if contrast.shares_alpha else 2 * alpha


def _changes(detectable: float | None) -> str:
    """Return the assumed changes: `20 % of samples`; for a larger detectable difference, none in the other direction."""
    if detectable is None or detectable <= DISCORDANCE:
        return f"{DISCORDANCE * 100:g} % of samples"
    return f"{detectable * 100:.2g} % of samples, all in one direction"


def _detectable_in_groups(contrast: Contrast, groups: int, level: float) -> float | None:
    """Return the smallest detectable difference of proportions over groups whose samples change together."""
    if groups < 2 or contrast.margin is not None:
        return _detectable_score(contrast, groups, math.sqrt(DISCORDANCE), 1.0, level)
    # By a t test.
    # d = r sqrt(D - d^2), solved for d; beyond D all changes go one way, and D is d itself.
    ratio = stats.detectable_t(groups, alpha=level) ** 2
    difference = math.sqrt(ratio * DISCORDANCE / (1 + ratio))
    return difference if difference <= DISCORDANCE else ratio / (1 + ratio)


def _samples_needed(
    contrast: Contrast, facts: MetricFacts, deviation: float, alpha: float, *, grouped: bool
) -> int | None:
    """Return the samples (or groups) that prove the margin with 80 % power, if the arms are truly equal."""
    margin = contrast.margin
    # No number of samples proves equal arms superior.
    if margin is None or contrast.alternative == "superior" or facts.kind is None:
        return None
    margins = (-margin, margin) if contrast.alternative == "equivalent" else (-margin,)
    return _samples_to_clear(margins, facts, deviation, alpha, grouped=grouped)


def _samples_to_resolve(
    relevant: float, facts: MetricFacts, deviation: float, alpha: float, level: float, *, grouped: bool
) -> int | None:
    """Return the samples (or groups) that detect the relevant difference, and prove equal arms equivalent: 80 % power each."""
    # A number is not a share: only its values will show what the metric is.
    if facts.kind is None and relevant >= 1:
        return None
    if facts.kind in (None, "binary") and not grouped:
        detects = samples_for_paired_change(relevant, DISCORDANCE, alpha=level)
    else:
        detects = stats.samples_for_t(relevant / deviation, alpha=level).ceiling
    proves = _samples_to_clear((-relevant, relevant), facts, deviation, alpha, grouped=grouped)
    return None if detects is None or proves is None else max(detects, proves)


def _samples_to_clear(
    margins: tuple[float, ...], facts: MetricFacts, deviation: float, alpha: float, *, grouped: bool
) -> int | None:
    """Return the samples (or groups) whose bounds clear the margins with 80 % power, if the arms are truly equal."""
    if facts.kind in (None, "binary") and not grouped:
        needed = samples_for_paired_margin(margins, DISCORDANCE, alpha=alpha)
        return max(needed or 1, stats.samples_for_zero(min(max(map(abs, margins)), 0.999), alpha=alpha))
    span = 1.0 if facts.kind is None else facts.largest_change
    # Two bounds are needed for equivalence: each may fail in half of the 20 % of runs that a power of 80 % allows.
    power = 1 - 0.2 / len(margins)
    nearest = min(map(abs, margins))
    return stats.samples_by_gaffke(
        assumed_differences(deviation, span), null=-nearest, end=-span, alpha=alpha, power=power
    )


def _of_ratio(
    contrast: Contrast, facts: MetricFacts, n: int, *, alpha: float, level: float, grouped: bool
) -> DetectableEffect:
    scores = LOG_DEVIATION * NORMAL
    # These logarithms stay below the largest unseen ratio that the test allows for, so that ratio is the end of the range.
    end = -log_reach(float(abs(scores).max()), (facts.low, facts.high))
    limit, needed, detectable = contrast.limit, None, None
    if limit is not None and contrast.relevant is not None:
        needed = _ratios_to_resolve(scores, limit, end, alpha, level)
    elif limit is not None and contrast.alternative != "superior":
        # Equivalence needs both bounds: each may fail in half of the 20 % of runs that a power of 80 % allows.
        power = 0.9 if contrast.alternative == "equivalent" else 0.8
        needed = stats.samples_by_gaffke(scores, null=-limit, end=end, alpha=alpha, power=power)
    if n > 1 and contrast.shares_alpha and contrast.alternative != "superior":
        # A test that the arms are alike decides.
        detectable = None if _is_powerless(contrast, n, level) else stats.detectable_mean(n, LOG_DEVIATION, alpha=level)
    elif n > 1:
        detectable = stats.detectable_by_gaffke(scores, end=end, alpha=level / 2, times=n / SCORES)
    if detectable is not None and contrast.alternative == "superior":
        detectable += limit or 0.0
    assumption = f"logarithms of the ratios have a standard deviation of {LOG_DEVIATION:g}"
    return DetectableEffect(
        contrast=contrast,
        detectable=detectable,
        unit="ratio",
        assumption=f"{assumption} and a group changes as one" if grouped else assumption,
        needed=needed,
    )


def _ratios_to_resolve(scores: Array, limit: float, end: float, alpha: float, level: float) -> int | None:
    """Return the samples that detect the relevant ratio, and prove equal arms equivalent: 80 % power each."""
    detects = stats.samples_for_t(limit / LOG_DEVIATION, alpha=level).ceiling
    # Each of the two bounds may fail in half of the 20 % that are left.
    proves = stats.samples_by_gaffke(scores, null=-limit, end=end, alpha=alpha, power=0.9)
    return None if detects is None or proves is None else max(detects, proves)


# Assumptions for an experiment that has not run yet.
ASSUMED = (
    PairVariability(
        nodeid="", metric="yes or no", baseline="", pairs=0, deviation=math.sqrt(DISCORDANCE), discordance=DISCORDANCE
    ),
    PairVariability(
        nodeid="", metric="a score from 0 to 1", baseline="", pairs=0, deviation=DEVIATION, discordance=None, span=1.0
    ),
)


def samples_to_detect(difference: float, spread: PairVariability, *, alpha: float, power: float) -> int | None:
    """Return the samples on which a two-sided test finds a difference of this size; None if no number is enough.

    >>> samples_to_detect(0.05, ASSUMED[0], alpha=0.05, power=0.8)
    622
    """
    if spread.discordance is not None:
        return samples_for_paired_change(difference, spread.discordance, alpha=alpha, power=power)
    if not spread.deviation or not difference:
        return None
    needed = stats.samples_for_t(abs(difference) / spread.deviation, alpha=alpha, power=power)
    return needed.ceiling


def samples_to_prove(margin: float, spread: PairVariability, *, alpha: float, power: float) -> int | None:
    """Return the samples that prove an equally good candidate no more than the margin worse; None if no number is enough.

    For a score without declared bounds no number is: nothing is proven about its mean.

    >>> samples_to_prove(0.05, ASSUMED[1], alpha=0.05, power=0.8)
    198
    >>> from dataclasses import replace
    >>> samples_to_prove(0.05, replace(ASSUMED[1], span=math.inf), alpha=0.05, power=0.8)
    """
    if spread.discordance is None:
        if math.isinf(spread.span):
            return None
        differences = assumed_differences(spread.deviation, spread.span)
        return stats.samples_by_gaffke(differences, null=-margin, end=-spread.span, alpha=alpha, power=power)
    needed = samples_for_paired_margin((-margin,), spread.discordance, alpha=alpha, power=power)
    floor = stats.samples_for_zero(min(margin, 0.999), alpha=alpha)
    return None if needed is None else max(needed, floor)
