"""The difference of two arms with samples of their own, such as episodes with other seeds: nothing pairs their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible.analyse.conditional import ZEROS
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import (
    SampleAttributes,
    ScoredMetric,
    inapplicable_samples,
    prepare,
    row_of,
    scored_samples,
    without_unfounded_proof,
)
from pytest_crucible.measures import conditional
from pytest_crucible.measures.means import compare_unpaired_means
from pytest_crucible.measures.row import Difference, End, counted_clusters
from pytest_crucible.measures.statistic import GEOMETRIC_MEANS
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.records import Contrast, Measure


def problem(measure: Measure) -> str:
    """Explain why a statistic cannot be compared without pairs; empty for a mean or a rate."""
    row = row_of(measure)
    if row.is_mean and not row.is_total and not row.of_slices:
        return ""
    return f"a {row.title} is compared on samples of both arms, and these arms have samples of their own: compare a mean or a rate"


def samples_of_arms(ours: Sequence[ScoredMetric], theirs: Sequence[ScoredMetric]) -> tuple[Flags, Flags]:
    """Return the samples that either arm scored, none if one arm has no score, and those that the metrics apply to."""
    scored, other = scored_samples(ours), scored_samples(theirs)
    either = scored | other if scored.any() and other.any() else np.zeros_like(scored)
    return either, ~inapplicable_samples(ours) | ~inapplicable_samples(theirs)


def compare_arms(
    contrast: Contrast,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    chosen: Flags,
    ends: tuple[End, End],
    alpha: float,
) -> Difference | None:
    """Return the difference at given ends of both arms, positive where the candidate is better; None if it could be anything."""
    facts = arms[0][0].facts
    first, second = (
        prepare(contrast, metrics, attributes, chosen & ~inapplicable_samples(metrics), end)
        for metrics, end in zip(arms, ends, strict=True)
    )
    if not (first.values.size and second.values.size) or not all(
        np.isfinite(arm.values).all() for arm in (first, second)
    ):
        return None
    by_ratio = comparison_row(contrast, facts) is not row_of(contrast)
    if by_ratio:
        if min(arm.values.min() for arm in (first, second)) <= 0:
            return conditional.unknown(int(chosen.sum()), counted_clusters(attributes.clusters_at(chosen)), ZEROS)
        first, second = (
            replace(arm, values=np.log(arm.values), kind="unbounded", bounds=_OPEN) for arm in (first, second)
        )
    if not row_of(contrast).higher_is_better(contrast, facts):
        first, second = second, first
    difference = compare_unpaired_means(first, second, alpha)
    difference = replace(difference, ratio=GEOMETRIC_MEANS if by_ratio else "")
    difference = _with_spread(difference, first.values, second.values)
    return without_unfounded_proof(contrast, facts, difference)


_OPEN = (-math.inf, math.inf)


def _with_spread(difference: Difference, first: Floats, second: Floats) -> Difference:
    """Return the difference with the deviation that plans the next run, where no groups make it another one."""
    sizes = first.size, second.size
    if difference.clusters is not None or min(sizes) < 2:
        return difference
    errors = [float(np.var(values, ddof=1)) / values.size for values in (first, second)]
    return replace(difference, deviation=math.sqrt(sum(sizes) * sum(errors)), dof=float(sum(sizes) - 2))
