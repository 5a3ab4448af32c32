"""The analysis of an experiment larger than memory: its samples in batches, each read while the last one is analysed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from typing import TypeVar

import numpy as np

from pytest_crucible.analyse.analysis import (
    AnalysisInputs,
    ScoreTable,
    is_unanswered,
    metric_facts,
    numeric_facts,
    score_metrics,
)
from pytest_crucible.analyse.compared_streams import ComparedArms
from pytest_crucible.analyse.measure_streams import MeasureInArm
from pytest_crucible.analyse.reach import find_refuted_reaches
from pytest_crucible.analyse.spilled_scores import SpilledScores
from pytest_crucible.analyse.statistics import SampleAttributes, mean_of
from pytest_crucible.measures.table import MEAN
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, BeyondReach, Comparison, Measure, MetricFacts, Plan, Target, TargetResult
from pytest_crucible.records.statistics import known_numbers
from pytest_crucible.stats.resampling.draws import MonteCarlo, hash_ids

THREADS = 2
"""More wait for Python's lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedInputs:
    """The inputs of the analysis of an experiment that is read in batches."""

    outline: AnalysisInputs
    """The experiment with a few values instead of all: those by which kinds are resolved, and missing replies found."""
    read: Callable[[], Generator[AnalysisInputs, None, None]]
    """Yields the samples in batches, in the dataset's order."""
    group_codes: Mapping[str, int] | None
    """A number for each group; None where samples are independent."""
    failed_metrics: Mapping[str, str]
    """The errors of metrics that failed on every sample."""

    @property
    def plan(self) -> Plan:
        return self.outline.plan


@dataclass(slots=True)
class _Measures:
    """All that an experiment computes."""

    estimates: list[MeasureInArm] = field(default_factory=list)
    targets: list[MeasureInArm] = field(default_factory=list)
    comparisons: list[ComparedArms] = field(default_factory=list)

    def __iter__(self) -> Iterator[MeasureInArm | ComparedArms]:
        yield from self.estimates
        yield from self.targets
        yield from self.comparisons


def analyse_streamed(inputs: StreamedInputs, *, alpha: float, family_size: int) -> Analysis:
    """Return the estimates, target results and comparisons of one experiment, as `analysis.analyse` does.

    `family_size` is the number of claims that the whole session makes: they share alpha.
    """
    plan, outline, size = inputs.plan, inputs.outline, max(family_size, 1)
    spill = SpilledScores()
    try:
        facts, measures, beyond = _score(inputs, spill)
        for measure in (*measures.estimates, *measures.targets):
            measure.open()
        for compared in measures.comparisons:
            compared.open(alpha, size, outline.seed)
        _run_passes(measures, spill, facts)
    finally:
        spill.close()
    results = {target.measure: target.result(alpha) for target in measures.targets}
    return Analysis(
        plan=plan,
        estimates=tuple(estimate.estimate(1 - alpha) for estimate in measures.estimates),
        targets=tuple(filter(None, (_target(target, plan, results, facts, alpha) for target in plan.targets))),
        comparisons=tuple(
            _with_reach(compared.result(alpha, size, plans=outline.plans_next_run), beyond)
            for compared in measures.comparisons
        ),
        kinds={name: str(entry.kind) for name, entry in facts.items()},
        finished=outline.finished,
        unanswered=tuple(
            arm.name for arm, answers in zip(plan.arms, outline.answers, strict=True) if is_unanswered(answers)
        ),
        failed_metrics=inputs.failed_metrics,
    )


def _target(
    target: Target, plan: Plan, results: Mapping[Measure, TargetResult], facts: Mapping[str, MetricFacts], alpha: float
) -> TargetResult | None:
    if target in results or target.metric in facts:
        return results.get(target)
    number = known_numbers().get(target.metric)
    if number is None:
        return None
    return number.evaluate(target, plan.candidate, alpha=alpha, is_fixed=f"{number.source}s" in plan.fixed)


def _with_reach(comparison: Comparison, beyond: Mapping[str, BeyondReach]) -> Comparison:
    is_mean = comparison.contrast.statistic == MEAN.name
    return replace(comparison, beyond_reach=beyond.get(comparison.contrast.metric) if is_mean else None)


def _score(
    inputs: StreamedInputs, spill: SpilledScores
) -> tuple[Mapping[str, MetricFacts], _Measures, dict[str, BeyondReach]]:
    """Spill the scores of all samples, and return the facts of the metrics, the measures, and samples beyond a reach."""
    declared = metric_facts(inputs.outline)
    numeric = numeric_facts(inputs.outline, declared)
    facts: Mapping[str, MetricFacts] = declared
    measures = _Measures()
    beyond: dict[str, BeyondReach] = {}
    for batch in read_ahead(inputs.read()):
        table = replace(score_metrics(batch, declared, numeric), attributes=_attributes(inputs, batch))
        if facts is declared:
            facts, measures = table.facts, _measures_of(inputs, table)
        for measure in measures:
            measure.count(table)
        _add_refutations(beyond, inputs.plan, table, batch.sample_ids)
        spill.append(table)
    # A metric with a sample that changed by more than its declared reach has no reach.
    facts = {name: replace(entry, reach=None) if name in beyond else entry for name, entry in facts.items()}
    for measure in measures:
        measure.facts = facts[measure.measure.metric]
    return facts, measures, beyond


def _attributes(inputs: StreamedInputs, batch: AnalysisInputs) -> SampleAttributes:
    codes = inputs.group_codes
    return SampleAttributes(
        None if codes is None else np.array([codes[str(group)] for group in batch.groups], dtype=np.int64),
        batch.expected,
        keys=hash_ids(batch.sample_ids),
        monte_carlo=MonteCarlo(seed=batch.seed),
    )


def _measures_of(inputs: StreamedInputs, table: ScoreTable) -> _Measures:
    plan, clustered = inputs.plan, inputs.group_codes is not None
    arms = list(enumerate(zip(plan.arms, inputs.outline.answers, strict=True)))
    numbers = {arm.name: number for number, (arm, _) in arms}
    replies = [plan.draws(number).size for number, _ in arms]
    return _Measures(
        estimates=[
            MeasureInArm(
                mean_of(table.facts[name]), table.facts[name], number, arm.name,
                clustered=clustered, replies=replies[number],
            )
            for name in table.scores
            for number, (arm, answers) in arms
            if (name in answers.scores or not table.facts[name].of_ensemble) and not table.facts[name].is_part
        ],
        targets=[
            MeasureInArm(
                target, table.facts[target.metric], 0, plan.candidate.name, clustered=clustered, replies=replies[0]
            )
            for target in plan.targets
            if table.has(target)
        ],
        comparisons=[
            ComparedArms(
                contrast, table.facts[contrast.metric], plan.candidate.name, numbers[contrast.baseline],
                clustered=clustered, replies=max(replies),
            )
            for contrast in plan.contrasts
            if table.has(contrast)
        ],
    )  # fmt: skip


def _add_refutations(beyond: dict[str, BeyondReach], plan: Plan, table: ScoreTable, ids: Sequence[str]) -> None:
    """Add the samples of a table that changed by more than a declared reach: the largest change stays, with all of them counted."""
    names = [name for name in table.scores if table.facts[name].reach is not None]
    for name, refuted in find_refuted_reaches(plan, names, table.arm, ids).items():
        before = beyond.get(name)
        if before is not None:
            largest = refuted if abs(refuted.change) > abs(before.change) else before
            refuted = replace(largest, samples=before.samples + refuted.samples)
        beyond[name] = refuted


def _run_passes(measures: _Measures, spill: SpilledScores, facts: Mapping[str, MetricFacts]) -> None:
    """Let the statistics take the scores, as often as they need."""
    while waiting := [each for each in measures if not all(stream.is_done for stream in each.streams.values())]:
        names = [name for each in waiting for name in each.measure.metrics]
        _add_tables(waiting, read_ahead(replace(table, facts=facts) for table in spill.read(names)))
        for each in waiting:
            for stream in each.streams.values():
                if not stream.is_done:
                    stream.end_pass()


def _add_tables(measures: Sequence[MeasureInArm | ComparedArms], tables: Iterator[ScoreTable]) -> None:
    """Add tables to all measures, in threads: each has sums of its own, and numpy computes most of them without Python's lock."""
    locks = [threading.Lock() for _ in measures]

    def add(number: int, table: ScoreTable) -> None:
        with locks[number]:
            measures[number].add(table)

    with ThreadPoolExecutor(THREADS) as pool:
        adding: list[Future[None]] = []
        for table in tables:
            # No order of tables changes a bit: a thread begins with this one while another is at the last sum of the one before.
            following = [pool.submit(add, number, table) for number in range(len(measures))]
            _wait_for(adding)
            adding = following
        _wait_for(adding)


def _wait_for(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        future.result()


Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Yield the items of a generator, which one other thread runs from its start to its end."""
    with ThreadPoolExecutor(1) as reader:
        try:
            following = reader.submit(next, items, None)
            while (item := following.result()) is not None:
                following = reader.submit(next, items, None)
                yield item
        finally:
            # A connection to SQLite is closed by the thread that opened it.
            reader.submit(items.close).result()
