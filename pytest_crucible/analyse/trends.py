"""One metric of one arm over many runs: where did it change?

Every pair of runs is compared, sample by sample, and all these comparisons share alpha by Holm; so wherever one then looks for a
change, with all of them seen, the chance to see one where none is stays below alpha. A stretch begins with the first run that is
proven to differ from the beginning of the stretch before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pytest_crucible import stats
from pytest_crucible.analyse.comparisons import compare_means
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.analyse.targets import estimate_mean
from pytest_crucible.records import Change, Contrast, MetricFacts, TrendPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScores:
    """The scores of the metric in one run."""

    run: str
    started: str
    arm: str
    dataset: str
    scores: Scores
    clusters: Clusters | None


def trend(facts: MetricFacts, entries: Sequence[RunScores], *, alpha: float) -> tuple[TrendPoint, ...]:
    """Return a point for each run, in their order. Their intervals hold together: each is at the level 1 - alpha / runs."""
    proven = _proven(facts, entries, alpha)
    level, begin, points = 1 - alpha / max(len(entries), 1), 0, []
    for k, entry in enumerate(entries):
        moved = entry.dataset != entries[begin].dataset
        changed = (begin, k) in proven
        if moved or changed:
            begin = k
        what = estimate_mean(facts, entry.arm, entry.scores, entry.clusters, level=level)
        because: Change = "other samples" if moved else "proven" if changed else ""
        points.append(TrendPoint(run=entry.run, started=entry.started, estimate=what, change=because))
    return tuple(points)


def _proven(facts: MetricFacts, entries: Sequence[RunScores], alpha: float) -> frozenset[tuple[int, int]]:
    """Return the pairs of runs that differ."""
    pairs = [
        pair for pair in combinations(range(len(entries)), 2) if entries[pair[0]].dataset == entries[pair[1]].dataset
    ]
    p_values = [_p_value(facts, entries[k], entries[j], alpha) for k, j in pairs]
    adjusted: Mapping[tuple[int, int], float | None] = dict(
        zip(pairs, stats.holm(p_values, family_size=len(pairs)), strict=True)
    )
    return frozenset(pair for pair, p in adjusted.items() if p is not None and p <= alpha)


def _p_value(facts: MetricFacts, earlier: RunScores, later: RunScores, alpha: float) -> float | None:
    """Return the largest p-value over all values of the lost samples."""
    contrast, pair = Contrast(metric=facts.name, baseline=earlier.run), (later.scores, earlier.scores)
    compared = compare_means(contrast, facts, later.run, pair, earlier.clusters, alpha=alpha, family_size=1)
    return compared.evidence.weakest_p_value
