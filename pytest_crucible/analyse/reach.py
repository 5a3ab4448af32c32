"""Samples that changed by more than the reach that their metric declares, and the reach that would decide an open comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import (
    SampleAttributes,
    ScoredMetric,
    inapplicable_samples,
    limits_to_clear,
    lost_samples,
    prepare,
    row_of,
    scored_samples,
)
from pytest_crucible.measures.row import End, Prepared
from pytest_crucible.measures.table import MEAN, comparison_row
from pytest_crucible.measures.values import joint_shape, largest_change, limit_changes, without_rounding
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
    refuted = {item.contrast.metric: item.beyond_reach for item in comparisons if item.beyond_reach is not None}
    return tuple(
        replace(item, beyond_reach=refuted.get(item.contrast.metric)) if item.contrast.statistic == MEAN.name else item
        for item in comparisons
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


Arms = tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]]
Pair = tuple[Prepared, Prepared]
# With less room than twice the largest observed change, the data would choose what they are then said to prove.
_ROOM = 2.0


def suggest_reach(
    comparison: Comparison, arms: Arms, attributes: SampleAttributes, *, alpha: float, family_size: int
) -> float | None:
    """Return a reach with which bounds of these data would decide an open claim; None if none would, or none is open."""
    contrast, facts = comparison.contrast, arms[0][0].facts
    is_plain = attributes.look_alpha is None and not attributes.random_factors and not contrast.unpaired
    limits = _open_limits(comparison, alpha, family_size)
    if not limits or not is_plain or facts.kind == "binary" or comparison_row(contrast, facts) is not MEAN:
        return None
    observed, *with_lost = _pairs(contrast, arms, attributes)
    changes = observed[0].values - observed[1].values
    if not _is_clear(changes, limits, alpha):
        return None
    reach = _round_up(max(_ROOM * float(np.abs(changes).max()), _ROOM * max(map(abs, limits))))
    if reach >= largest_change(observed[0]):
        return None
    # What a regression gate says is proven is two-sided, and one of the session's family.
    level = alpha / max(family_size, 1) / 2 if contrast.alternative == "regression" else alpha
    sides = [(limit, float(changes.mean()) > limit) for limit in limits]
    return reach if all(_excludes(pair, sides, reach, level) for pair in (observed, *with_lost)) else None


def _open_limits(comparison: Comparison, alpha: float, family_size: int) -> tuple[float, ...]:
    """Return the differences that bounds have to exclude for a verdict, or for a proof; empty if they exclude them."""
    contrast, value, observed = comparison.contrast, comparison.difference, comparison.evidence.observed
    if value is None or not contrast.decides:
        return ()
    if contrast.alternative == "regression":
        is_missed = value < 0 and comparison.p_value is not None and comparison.p_value <= alpha
        is_proven = observed.proof_p is not None and observed.proof_p * family_size <= alpha
        return (0.0,) if is_missed and not is_proven else ()
    limits = limits_to_clear(contrast, value)
    if observed.lower is None or observed.upper is None:
        return limits
    return limits if any(observed.lower <= limit <= observed.upper for limit in limits) else ()


def _pairs(contrast: Contrast, arms: Arms, attributes: SampleAttributes) -> list[Pair]:
    """Return the better arm's values first: as observed and, if some are lost, at the ends of these."""
    both = [*arms[0], *arms[1]]
    scored, applicable = scored_samples(both), ~inapplicable_samples(both)
    readings: list[tuple[End, End]] = [("observed", "observed")]
    if (lost_samples(both) & applicable).any():
        readings += [("low", "high"), ("high", "low")]
    pairs = []
    for ends in readings:
        chosen = scored if ends[0] == "observed" else applicable
        ours, theirs = (
            prepare(contrast, metrics, attributes, chosen, end) for metrics, end in zip(arms, ends, strict=True)
        )
        pairs.append(
            (ours, theirs) if row_of(contrast).higher_is_better(contrast, arms[0][0].facts) else (theirs, ours)
        )
    return pairs


def _is_clear(changes: Floats, limits: tuple[float, ...], alpha: float) -> bool:
    """Return whether the mean is so far from the limits that some bound might exclude them: it saves computing the others."""
    from scipy.special import ndtri

    half = -float(ndtri(alpha)) * float(changes.std()) / math.sqrt(changes.size)
    return all(abs(float(changes.mean()) - limit) > half for limit in limits)


def _excludes(pair: Pair, sides: Sequence[tuple[float, bool]], reach: float, alpha: float) -> bool:
    """Return whether bounds with the reach lie above, or below, each of the limits."""
    first, second = limit_changes(*(replace(arm, largest_change=reach) for arm in pair))
    theirs = without_rounding(first.values, second.values, first.bounds)
    bounds = stats.difference_bounds(first.values, theirs, alpha=alpha, reach=reach, **joint_shape(first, second))
    if bounds.low is None or bounds.high is None:
        return False
    return all(bounds.low > limit if above else bounds.high < limit for limit, above in sides)


def _round_up(number: float) -> float:
    """Return the number with two digits, not below it.

    >>> _round_up(0.2468), _round_up(0.25), _round_up(130.0)
    (0.25, 0.25, 130.0)
    """
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / step - 1e-9) * step:.2g}")
