"""Detectable effects before a run: the smallest difference it can show, and the n that a margin needs.

How much the arms differ is not known yet, so this rests on stated assumptions. After the run the same is computed from the data.
"""

from __future__ import annotations

import math

from pytest_crucible import stats
from pytest_crucible.records import Contrast, DetectableEffect, MetricFacts, Plan
from pytest_crucible.stats.measures.table import STATISTICS

# Assumed proportion of samples on which two arms disagree about a yes-or-no metric. A choice, not a measurement: the middle of
# the 10, 20 and 30 % for which docs/statistics/planning.md draws the detectable difference.
DISCORDANCE = 0.2
# Assumed standard deviation of the difference of bounded scores, as a proportion of their range. A choice, not a measurement:
# the difference of two uniform scores has sqrt(1/6) = 0.41 if they are independent, and 0.25 at a correlation of 0.63.
DEVIATION = 0.25


def detectable_effects(plan: Plan, *, alpha: float, family_size: int) -> tuple[DetectableEffect, ...]:
    """Return what each comparison can show with 80 % power, when `family_size` comparisons share alpha.

    Each cluster counts as one sample, which is the most careful assumption. A statistic without a formula is left out.
    """
    facts = {metric.name: metric for metric in plan.metrics}
    n = plan.groups or plan.selected
    return tuple(
        _one(
            contrast,
            planned_as(contrast, facts.get(contrast.metric, MetricFacts(name=contrast.metric))),
            n,
            alpha,
            family_size,
        )
        for contrast in plan.contrasts
        for planned_as in [STATISTICS[contrast.statistic].planned_as]
        if planned_as is not None
    )


def _one(contrast: Contrast, facts: MetricFacts, n: int, alpha: float, family_size: int) -> DetectableEffect:
    # Bonferroni, the first step of Holm: what a comparison can show when it is tested first, without help from the others.
    shared = alpha / max(family_size, 1)
    span = facts.high - facts.low
    if facts.kind in (None, "binary"):
        deviation, unit = math.sqrt(DISCORDANCE), "points"
        prefix = "" if facts.kind == "binary" else "the metric is binary and "
        assumption = f"{prefix}the arms differ on {DISCORDANCE * 100:g} % of samples"
        detectable = stats.detectable_paired_proportions(n, DISCORDANCE, alpha=shared)
    elif math.isfinite(span):
        deviation, unit = DEVIATION * span, ""
        assumption = f"differences have a standard deviation of {deviation:.2g}"
        detectable = _detectable(n, deviation, shared)
    else:
        deviation, unit, assumption = math.nan, "standard deviations", ""
        detectable = _detectable(n, 1.0, shared)
    margin, needed = contrast.margin, None
    if margin is not None and facts.kind is not None and math.isfinite(deviation):
        # The augmented t adds a difference at each end of the range, -span and +span; their squares enlarge the variance.
        pseudo = 2 * span**2 if facts.kind not in ("binary", "unbounded") else 0.0
        needed = stats.samples_for_margin(margin, deviation, alpha=alpha, pseudo=pseudo)
        if facts.kind == "binary":
            needed = max(needed or 1, stats.samples_for_zero(margin, alpha=alpha))
    return DetectableEffect(contrast=contrast, detectable=detectable, unit=unit, assumption=assumption, needed=needed)


def _detectable(n: int, deviation: float, alpha: float) -> float | None:
    return stats.detectable_mean(n, deviation, alpha=alpha) if n > 1 else None
