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
from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.questions import Clusters, mean_of
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.records import Change, Contrast, MetricFacts, TrendPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The metric in one run."""

    run: str
    started: str
    arm: str
    dataset: str
    scores: Scores
    clusters: Clusters | None


def trend(facts: MetricFacts, seen: Sequence[Seen], *, alpha: float) -> tuple[TrendPoint, ...]:
    """The points in the order of the runs. Their intervals hold together: each is at the level 1 - alpha / runs."""
    proven = _proven(facts, seen, alpha)
    level, begin, points = 1 - alpha / max(len(seen), 1), 0, []
    for k, one in enumerate(seen):
        moved = one.dataset != seen[begin].dataset
        changed = (begin, k) in proven
        if moved or changed:
            begin = k
        what = estimate(mean_of(facts), facts, one.arm, one.scores, one.clusters, level=level)
        because: Change = "other samples" if moved else "proven" if changed else ""
        points.append(TrendPoint(run=one.run, started=one.started, estimate=what, change=because))
    return tuple(points)


def _proven(facts: MetricFacts, seen: Sequence[Seen], alpha: float) -> frozenset[tuple[int, int]]:
    """Pairs of runs that differ."""
    pairs = [pair for pair in combinations(range(len(seen)), 2) if seen[pair[0]].dataset == seen[pair[1]].dataset]
    p_values = [_p_value(facts, seen[k], seen[j], alpha) for k, j in pairs]
    adjusted: Mapping[tuple[int, int], float | None] = dict(
        zip(pairs, stats.holm(p_values, family_size=len(pairs)), strict=True)
    )
    return frozenset(pair for pair, p in adjusted.items() if p is not None and p <= alpha)


def _p_value(facts: MetricFacts, one: Seen, other: Seen, alpha: float) -> float | None:
    """Whatever the lost would have been."""
    contrast, pair = Contrast(metric=facts.name, baseline=one.run), (other.scores, one.scores)
    compared = compare(contrast, facts, other.run, pair, one.clusters, alpha=alpha, questions=1)
    return compared.evidence.weakest_p_value
