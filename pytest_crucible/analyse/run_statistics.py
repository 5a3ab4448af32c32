"""Statistics of stored runs that commands show: A/A tests, the variability of pairs, and trends over runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import AnalysisInputs, clusters_of, metric_facts
from pytest_crucible.analyse.comparisons import compare_means
from pytest_crucible.analyse.scores import Floats, Scores, scores, scores_by_repeat
from pytest_crucible.analyse.statistics import Clusters, numeric
from pytest_crucible.analyse.targets import estimate_mean
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import AATest, Change, Contrast, Kind, MetricFacts, PairVariability, TrendPoint


def aa_tests(inputs: AnalysisInputs, *, alpha: float, replicates: int, seed: int) -> tuple[AATest, ...]:
    """Yield the A/A tests: of the repeats of each arm with repeats, then of each pair of arms; one metric at a time."""
    facts = [metric for metric in metric_facts(inputs).values() if metric.kind != "text"]
    return tuple(
        _self_test(metric, dealt, values, clusters_of(inputs.groups), alpha, replicates, seed)
        for metric in facts
        for dealt, values in _deals(inputs, metric)
    )


def _deals(inputs: AnalysisInputs, facts: MetricFacts) -> Iterator[tuple[str, Floats]]:
    """Yield the scores that can be dealt to two arms: repeats of one arm, and the sample means of two."""
    samples = len(inputs.groups)
    arms = [
        (arm, answers, inputs.plan.draws(number).size)
        for number, (arm, answers) in enumerate(zip(inputs.plan.arms, inputs.answers, strict=True))
        if facts.name in answers.scores
    ]
    for arm, answers, repeats in arms:
        if repeats > 1:
            yield f"{arm.name}, {repeats} repeats", scores_by_repeat(facts, answers, samples=samples, repeats=repeats)
    for pair in combinations(arms, 2):
        # Stacked like two repeats, so that dealing swaps the arms within a sample and keeps the pairing.
        columns = [scores(facts, answers, samples=samples, repeats=repeats).values for _, answers, repeats in pair]
        yield f"{pair[0][0].name} and {pair[1][0].name}, swapped", np.stack(columns, axis=1)


def _self_test(
    facts: MetricFacts,
    dealt: str,
    values: Floats,
    clusters: Clusters | None,
    alpha: float,
    replicates: int,
    seed: int,
) -> AATest:
    whole = ~np.isnan(values).any(axis=1)
    untried = AATest(
        metric=facts.name,
        dealt=dealt,
        samples=int(whole.sum()),
        left_out=int((~whole).sum()),
        replicates=replicates,
        alpha=alpha,
        seed=seed,
        note="fewer than two samples have every score",
    )
    if untried.samples < 2:
        return untried
    alarms = stats.false_alarm_rate(
        values[whole],
        kind=numeric(facts.kind),
        bounds=(facts.low, facts.high),
        clusters=None if clusters is None else clusters[whole],
        alpha=alpha,
        replicates=replicates,
        seed=seed,
    )
    tried = replace(untried, clusters=alarms.clusters, method=alarms.method)
    if alarms.unanswered == replicates:
        return replace(tried, note="too few samples or groups for an answer")
    return replace(tried, rate=alarms.rate, interval=alarms.interval, holds=alarms.holds, note="")


def pair_variabilities(inputs: AnalysisInputs) -> Iterator[PairVariability]:
    """Return the variability of candidate and each baseline, on every numeric metric that both have on two samples or more."""
    sizes = [inputs.plan.draws(number).size for number in range(len(inputs.plan.arms))]
    for name, facts in metric_facts(inputs).items():
        arms = [
            scores(facts, arm, samples=len(inputs.groups), repeats=repeats) if name in arm.scores else None
            for arm, repeats in zip(inputs.answers, sizes, strict=True)
        ]
        for arm, theirs in zip(inputs.plan.arms[1:], arms[1:], strict=True):
            ours = arms[0]
            if ours is None or theirs is None or facts.kind == "text":
                continue
            differences = (ours.values - theirs.values)[ours.seen & theirs.seen]
            if len(differences) > 1:
                yield PairVariability(
                    nodeid=inputs.plan.nodeid,
                    metric=name,
                    baseline=arm.name,
                    pairs=len(differences),
                    deviation=float(differences.std(ddof=1)),
                    discordance=_discordance(facts.kind, differences, max(sizes)),
                    span=facts.largest_change,
                )


def _discordance(kind: Kind | None, differences: Floats, repeats: int) -> float | None:
    """Return the discordance of a yes-or-no metric with one repeat; the mean of several repeats is a score."""
    return float(np.mean(differences != 0)) if kind == "binary" and repeats == 1 else None


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
