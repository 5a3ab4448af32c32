"""What the data say about one arm, and about each quality target of the candidate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.questions import Clusters, Question, measure, question_of, read
from pytest_crucible.analyse.scores import Floats, Scores
from pytest_crucible.records import Answers, Estimate, Evidence, MetricFacts, Target, TargetResult


def estimate(
    question: Question, facts: MetricFacts, arm: str, scores: Scores, clusters: Clusters | None, *, level: float
) -> Estimate:
    """A statistic of one arm over the samples that it was scored on."""
    seen = scores.seen
    measured = measure(question, scores.values[seen], _of(clusters, seen), level=level)
    return Estimate(
        metric=facts.name,
        statistic=question.label,
        arm=arm,
        n=int(seen.sum()),
        lost=int(scores.lost.sum()),
        inapplicable=int(scores.inapplicable.sum()),
        value=measured.value,
        unconditional=_unconditional(question, facts, scores),
        interval=measured.interval,
        clusters=measured.clusters,
        method=measured.method,
    )


def judge_target(
    target: Target, facts: MetricFacts, arm: str, scores: Scores, clusters: Clusters | None, *, alpha: float
) -> TargetResult:
    """A target's estimate, its one-sided bounds, and the same with the lost samples at either extreme."""
    question = question_of(target, facts)
    seen, known = scores.seen, ~scores.inapplicable
    observed, method = read(question, scores.values[seen], _of(clusters, seen), alpha=alpha)
    worst = best = observed
    if scores.lost.any():
        low, high = _extremes(question, scores)
        worst, _ = read(question, low[known], _of(clusters, known), alpha=alpha)
        best, _ = read(question, high[known], _of(clusters, known), alpha=alpha)
    return TargetResult(
        target=target,
        estimate=estimate(question, facts, arm, scores, clusters, level=1 - alpha),
        evidence=Evidence(observed=observed, worst=worst, best=best, method=method),
        needed=None if clusters is not None else _needed(question, target, scores.values[seen], alpha),
    )


def failures(answers: Answers) -> Mapping[str, int]:
    """How often the arm failed a sample by itself, by kind."""
    return dict(Counter(kind for kind in answers.failures if kind is not None))


def _extremes(question: Question, scores: Scores) -> tuple[Floats, Floats]:
    """Values between which all others lie; where one value is counted, the lost may have it or not."""
    if question.relation != "==":
        return scores.low, scores.high
    could = scores.lost & (scores.low <= question.threshold) & (question.threshold <= scores.high)
    return np.where(scores.lost, np.inf, scores.low), np.where(could, question.threshold, scores.high)


def _of(clusters: Clusters | None, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Clusters | None:
    return None if clusters is None else clusters[which]


def _unconditional(question: Question, facts: MetricFacts, scores: Scores) -> float | None:
    """The mean if the metric's worst value stood where it does not apply."""
    worst = facts.low if facts.direction == "higher" else facts.high
    if question.label != "mean" or not scores.inapplicable.any() or not math.isfinite(worst):
        return None
    values = np.where(scores.inapplicable, worst, scores.values)
    return float(np.nanmean(values))


def _needed(question: Question, target: Target, values: Floats, alpha: float) -> int | None:
    """About how many samples would prove what the estimate says, were it the truth. Not known for grouped ones."""
    if len(values) < 2 or question.quantile is not None or question.total or target.relation == "==":
        return None
    prepared = question.prepare(values)
    if question.kind == "binary" and np.isin(prepared, (0.0, 1.0)).all():
        if not 0 <= target.value <= 1:
            return None
        rate = float(prepared.mean())
        side: Literal["lower", "upper"] = "lower" if rate > target.value else "upper"
        return stats.samples_to_prove_proportion(rate, target.value, alpha=alpha, side=side)
    return stats.samples_to_prove_mean(float(prepared.mean()), float(prepared.std(ddof=1)), target.value, alpha=alpha)
