"""The samples most worth reading: where the candidate lost to a baseline, or simply did worst."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_crucible.analyse.scores import Scores
from pytest_crucible.records import MetricFacts, Plan, Worst

HOW_MANY = 5


def judged_metric(plan: Plan, scored: Mapping[str, object]) -> str | None:
    """The metric that this experiment is mostly about: compared, else targeted, else first."""
    asked = [*(one.metric for one in plan.contrasts), *(one.metric for one in plan.targets), *scored]
    return next((metric for metric in asked if metric in scored), None)


def worst_samples(
    plan: Plan, facts: Mapping[str, MetricFacts], scores: Mapping[str, tuple[Scores, ...]], *, most: int = HOW_MANY
) -> dict[int, Worst]:
    """Up to `most` samples by position, worst first: those that fell furthest behind the first baseline, or scored worst.

    Their ids and replies are the caller's to fill in.
    """
    metric = judged_metric(plan, scores)
    if metric is None:
        return {}
    sign = 1.0 if facts[metric].direction == "higher" else -1.0
    ours = scores[metric][0].values
    theirs = scores[metric][1].values if len(scores[metric]) > 1 else None
    behind = np.zeros_like(ours) if theirs is None else np.nan_to_num(sign * (ours - theirs))
    order = np.lexsort((np.arange(len(ours)), sign * ours, behind))  # the last key is the first to sort by
    worth = [int(k) for k in order if not np.isnan(ours[k]) and (theirs is None or behind[k] < 0)]
    return {
        k: Worst(metric=metric, value=float(ours[k]), baseline_value=None if theirs is None else float(theirs[k]))
        for k in worth[:most]
    }
