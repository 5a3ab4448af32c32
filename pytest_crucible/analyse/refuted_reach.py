"""Finds samples that changed by more than the reach that their metric declares. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import ScoredMetric, row_of
from pytest_crucible.measures.table import MEAN
from pytest_crucible.records import BeyondReach, Comparison, Contrast, Measure, Plan
from pytest_crucible.stats.inputs import beyond_reach

ArmOf = Callable[[Measure, int], Sequence[ScoredMetric]]
"""Returns the metrics of a measure with their scores in the arm of a number."""


def find_refuted_reaches(plan: Plan, names: Sequence[str], arm_of: ArmOf, ids: Sequence[str]) -> dict[str, BeyondReach]:
    """Return, for each of the metrics, the largest change that its declared reach excludes; metrics without one are left out.

    One sample refutes the declaration for all comparisons of the metric's mean, with any baseline and in any slice.
    """
    by_metric = {name: list(_changes(plan, name, arm_of)) for name in names}
    return {
        name: _largest(changes, ids) for name, changes in by_metric.items() if any(far.any() for *_, far in changes)
    }


def share_refutations(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return comparisons of which each has the refuted reach of its metric, whichever of them found the sample."""
    found = {one.contrast.metric: one.beyond_reach for one in comparisons if one.beyond_reach is not None}
    return tuple(
        replace(one, beyond_reach=found.get(one.contrast.metric)) if one.contrast.statistic == MEAN.name else one
        for one in comparisons
    )


def change_beyond(contrast: Contrast, ours: ScoredMetric, theirs: ScoredMetric) -> tuple[Floats, Flags]:
    """Return each sample's change, positive where the candidate is better, and whether it is beyond the declared reach."""
    facts, sign = ours.facts, 1.0 if row_of(contrast).higher_is_better(contrast, ours.facts) else -1.0
    changes = sign * (ours.scores.values - theirs.scores.values)
    if facts.reach is None:
        return changes, np.zeros(changes.shape, dtype=bool)
    return changes, beyond_reach(ours.scores.values, theirs.scores.values, facts.reach)


def _changes(plan: Plan, name: str, arm_of: ArmOf) -> Iterator[tuple[str, float, Floats, Flags]]:
    """Yield baseline, reach, changes and whether they are beyond it, of each comparison of the metric's mean."""
    number = {arm.name: k for k, arm in enumerate(plan.arms)}
    for contrast in plan.contrasts:
        if contrast.metric == name and contrast.statistic == MEAN.name and contrast.baseline in number:
            (ours, *_), (theirs, *_) = (arm_of(contrast, k) for k in (0, number[contrast.baseline]))
            if ours.facts.reach is not None:
                yield contrast.baseline, ours.facts.reach, *change_beyond(contrast, ours, theirs)


def _largest(compared: Sequence[tuple[str, float, Floats, Flags]], ids: Sequence[str]) -> BeyondReach:
    sizes = [np.where(far, np.abs(changes), 0.0) for *_, changes, far in compared]
    baseline, reach, changes, _ = compared[int(np.argmax([size.max(initial=0.0) for size in sizes]))]
    place = int(np.argmax(np.where(np.isnan(changes), 0.0, np.abs(changes))))
    everywhere = np.concatenate([np.flatnonzero(far) for *_, far in compared])
    return BeyondReach(
        # Twins stand below the originals, and have their ids.
        sample=ids[place % len(ids)] if ids else f"number {place + 1}",
        change=float(changes[place]),
        baseline=baseline,
        reach=reach,
        samples=int(np.unique(everywhere).size),
    )
