"""A/A self-tests of a stored experiment: the rate of false alarms of its comparisons where the arms do not differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import AnalysisInputs, clusters_of, metric_facts
from pytest_crucible.analyse.scores import Floats, scores, scores_by_repeat
from pytest_crucible.analyse.statistics import Clusters, numeric
from pytest_crucible.records import AATest, MetricFacts


def aa_tests(given: AnalysisInputs, *, alpha: float, replicates: int, seed: int) -> tuple[AATest, ...]:
    """Yield the A/A tests: of the repeats of each arm with repeats, then of each pair of arms; one metric at a time."""
    facts = [metric for metric in metric_facts(given).values() if metric.kind != "text"]
    return tuple(
        _self_test(metric, dealt, values, clusters_of(given.groups), alpha, replicates, seed)
        for metric in facts
        for dealt, values in _deals(given, metric)
    )


def _deals(given: AnalysisInputs, facts: MetricFacts) -> Iterator[tuple[str, Floats]]:
    """Yield the scores that can be dealt to two arms: repeats of one arm, and the sample means of two."""
    samples = len(given.groups)
    arms = [
        (arm, answers, given.plan.draws(number).size)
        for number, (arm, answers) in enumerate(zip(given.plan.arms, given.answers, strict=True))
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
