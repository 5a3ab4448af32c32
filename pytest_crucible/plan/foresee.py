"""What a run can show, said before it is paid for: the smallest difference it detects, and the n that a margin needs.

Nothing is known yet of how the arms differ, so this rests on stated assumptions; after the run the same is computed from the data.
"""

from __future__ import annotations

import math

from pytest_crucible import stats
from pytest_crucible.records import Contrast, Foresight, MetricFacts, Plan

DISCORDANCE = 0.2
"""Assumed share of samples on which two arms disagree about a yes-or-no metric."""
DEVIATION = 0.25
"""Assumed standard deviation of the difference of bounded scores, as a share of their range."""


def foresee(plan: Plan, *, alpha: float, questions: int) -> tuple[Foresight, ...]:
    """What each comparison of a plan can show with 80 % power, when `questions` comparisons share alpha.

    Clusters count as one sample each: the honest end of what is possible.
    """
    facts = {one.name: one for one in plan.metrics}
    n = plan.groups or plan.selected
    return tuple(
        _one(contrast, facts.get(contrast.metric, MetricFacts(name=contrast.metric)), n, alpha, questions)
        for contrast in plan.contrasts
    )


def _one(contrast: Contrast, facts: MetricFacts, n: int, alpha: float, questions: int) -> Foresight:
    shared = alpha / max(questions, 1)
    span = facts.high - facts.low
    if facts.kind in (None, "binary"):
        deviation, unit = math.sqrt(DISCORDANCE), "points"
        known = "" if facts.kind == "binary" else "it is yes or no and "
        assumption = f"{known}{DISCORDANCE * 100:g} % of answers change"
        detectable = stats.detectable_paired_proportions(n, DISCORDANCE, alpha=shared)
    elif math.isfinite(span):
        deviation, unit = DEVIATION * span, ""
        assumption = f"differences spread by {deviation:.2g}"
        detectable = _detectable(n, deviation, shared)
    else:
        deviation, unit, assumption = math.nan, "spreads of the differences", ""
        detectable = _detectable(n, 1.0, shared)
    margin, needed = contrast.margin, None
    if margin is not None and facts.kind is not None and math.isfinite(deviation):
        pseudo = 2 * span**2 if facts.kind not in ("binary", "unbounded") else 0.0
        needed = stats.samples_for_margin(margin, deviation, alpha=alpha, pseudo=pseudo)
        if facts.kind == "binary":
            needed = max(needed or 1, stats.samples_for_zero(margin, alpha=alpha))
    return Foresight(contrast=contrast, detectable=detectable, unit=unit, assumption=assumption, needed=needed)


def _detectable(n: int, deviation: float, alpha: float) -> float | None:
    return stats.detectable_mean(n, deviation, alpha=alpha) if n > 1 else None
