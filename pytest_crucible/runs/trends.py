"""The course of a metric over the finished runs of a store: read run by run, so that one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pytest_crucible.analyse.analysis import AnalysisInputs, clusters_of, metric_facts
from pytest_crucible.analyse.run_statistics import RunScores, trend
from pytest_crucible.analyse.scores import scores
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, RunSummary, TrendPoint
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import stored_inputs
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

LAST, ALPHA = 20, 0.05


@dataclass(frozen=True)
class Trend:
    """A metric of one experiment over runs, oldest first."""

    metric: str
    nodeid: str
    points: tuple[TrendPoint, ...]
    level: float
    """All intervals hold together at it."""


def load_trend(
    store: RunStore, metric: str, *, suite: str = "", adapter: str = "", last: int = LAST, alpha: float = ALPHA
) -> Trend:
    """Return the metric over the `last` finished runs that have it.

    `suite` is a text in the experiment's name, `adapter` the arm; by default each run's candidate. Raises SpecError if no run has
    scored the metric, or several experiments have.
    """
    # islice, because reading a run is slow: older runs are not read.
    entries = list(islice(_entries(store, metric, suite, adapter), last))
    nodeids = sorted({nodeid for nodeid, _, _ in entries})
    if len(nodeids) > 1:
        raise SpecError(
            f"metric {metric!r} is in {len(nodeids)} experiments: choose one with --suite, such as {nodeids[0]}"
        )
    if not entries:
        raise SpecError(f"no finished run has scored {metric!r}: `crucible runs` lists the runs")
    points = trend(entries[0][1], [of_run for _, _, of_run in reversed(entries)], alpha=alpha)
    return Trend(metric, nodeids[0], points, 1 - alpha)


def _entries(store: RunStore, metric: str, suite: str, adapter: str) -> Iterator[tuple[str, MetricFacts, RunScores]]:
    """Yield nodeid, facts and scores of the metric, from the newest run on."""
    for run in list_runs(store, suite=suite):
        if run.status == "finished":
            for inputs in stored_inputs(store, run.id):
                number = _number(inputs, metric, adapter)
                if suite in inputs.plan.nodeid and number is not None:
                    yield inputs.plan.nodeid, metric_facts(inputs)[metric], _scores_of_run(run, inputs, metric, number)


def _number(inputs: AnalysisInputs, metric: str, adapter: str) -> int | None:
    names = [arm.name for arm in inputs.plan.arms]
    number = 0 if not adapter else names.index(adapter) if adapter in names else None
    return number if number is not None and metric in inputs.answers[number].scores else None


def _scores_of_run(run: RunSummary, inputs: AnalysisInputs, metric: str, number: int) -> RunScores:
    return RunScores(
        run=run.id,
        started=run.started,
        arm=inputs.plan.arms[number].name,
        dataset=inputs.plan.dataset_sha256,
        scores=scores(
            metric_facts(inputs)[metric],
            inputs.answers[number],
            samples=len(inputs.groups),
            repeats=inputs.plan.draws(number).size,
        ),
        clusters=clusters_of(inputs.groups),
    )


def scored_metrics(store: RunStore) -> Sequence[tuple[str, str, int]]:
    """Return (metric, nodeid, number of finished runs) of the metrics that a first sample of an arm has, by their names."""
    # Of each arm one sample is read, by its key: SQLite keeps the order of a cross join, and would scan all observations otherwise.
    query = """
        SELECT observations.metric, experiments.nodeid, COUNT(DISTINCT runs.id)
        FROM runs JOIN experiments ON experiments.run = runs.id JOIN arms ON arms.experiment = experiments.id
        CROSS JOIN observations
        WHERE runs.status = 'finished' AND arms.variant IS NULL AND observations.label IS NULL
            AND observations.arm = arms.id
            AND observations.position = (SELECT MIN(position) FROM observations AS first WHERE first.arm = arms.id)
        GROUP BY observations.metric, experiments.nodeid ORDER BY observations.metric, experiments.nodeid
    """
    return list(store.rows(query))
