"""The judged metric group by group: where the candidate gains and where it loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.questions import mean_of, measure, numeric
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.worst import judged_metric
from pytest_crucible.records import MetricFacts, Plan, Slice

MOST = 200
"""Groups beyond which a table of them says nothing."""


def slices(
    plan: Plan,
    facts: Mapping[str, MetricFacts],
    scores: Mapping[str, tuple[Scores, ...]],
    groups: Sequence[str | None],
    *,
    alpha: float,
) -> tuple[Slice, ...]:
    """Each group's mean and difference, largest loss first. Empty without groups, or with one a sample, or with too many.

    Samples of a group are taken as they are here: within it there is nothing to cluster by. The intervals are not adjusted
    for looking at many groups.
    """
    metric = judged_metric(plan, scores)
    named = np.array([group or "" for group in groups], dtype=object)
    names = sorted(set(named) - {""})
    if metric is None or not 2 <= len(names) <= min(MOST, len(groups) // 2):
        return ()
    found = [_slice(facts[metric], scores[metric], name, named == name, alpha) for name in names]
    return tuple(sorted(found, key=lambda one: (one.difference is None, one.difference, one.group)))


def _slice(facts: MetricFacts, scores: tuple[Scores, ...], group: str, inside: Flags, alpha: float) -> Slice:
    ours = scores[0].values[inside & scores[0].seen]
    mean = measure(mean_of(facts), ours, None, level=1 - alpha)
    compared = next(_compared(facts, scores, inside, alpha), None)
    return Slice(
        metric=facts.name,
        group=group,
        n=len(ours),
        lost=int((inside & scores[0].lost).sum()),
        value=mean.value,
        interval=mean.interval,
        pairs=compared.n if compared else None,
        difference=compared.estimate if compared else None,
        difference_interval=compared.interval if compared else None,
    )


def _compared(
    facts: MetricFacts, scores: tuple[Scores, ...], inside: Flags, alpha: float
) -> Iterator[stats.Comparison]:
    """Against the first baseline, where both arms answered something."""
    if len(scores) < 2:
        return
    both = inside & scores[0].seen & scores[1].seen
    ours, theirs = scores[0].values[both], scores[1].values[both]
    if both.sum() >= 2 and np.isfinite(ours).all() and np.isfinite(theirs).all():
        pair = (theirs, ours) if facts.direction == "higher" else (ours, theirs)
        yield stats.compare(*pair, kind=numeric(facts.kind), bounds=(facts.low, facts.high), alpha=alpha)
