"""`crucible trend`: one metric over the stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click
from tabulate import tabulate

from pytest_crucible.analyse.analysis import AnalysisInputs, clusters_of, metric_facts
from pytest_crucible.analyse.scores import scores
from pytest_crucible.analyse.trends import RunScores, trend
from pytest_crucible.commands.load import stored_inputs
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records import MetricFacts, RunSummary, TrendPoint
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.stats.number_format import with_interval
from pytest_crucible.store.history import list_runs

SIGNS = {"proven": "<- changed, proven", "other samples": "<- other samples"}


@click.command("trend", short_help="One metric over the stored runs, and where it changed.")
@click.argument("metric")
@click.option("--suite", default="", metavar="TEXT", help="The experiment whose name contains this text.")
@click.option("--adapter", default="", metavar="NAME", show_default="each run's candidate", help="The arm.")
@click.option("--last", type=click.IntRange(min=2), default=20, metavar="N", help="Number of latest runs.")
@click.option("--alpha", type=float, default=0.05, metavar="A", help="Error rate of all marked changes together.")
@store_option
@json_option
def command(metric: str, suite: str, adapter: str, last: int, alpha: float, store: str, as_json: bool) -> None:
    """Print METRIC over the finished runs, oldest first, and where it is proven to have changed.

    The intervals hold together, and all pairs of runs share alpha, so that the most unusual run may be picked afterwards.
    """
    with existing_store(store) as opened:
        runs = [run for run in list_runs(opened, suite=suite) if run.status == "finished"]
        candidates = (
            (run, inputs) for run in runs for inputs in stored_inputs(opened, run.id)
            if suite in inputs.plan.nodeid and _number(inputs, metric, adapter) is not None
        )  # fmt: skip
        # islice, because reading a run is slow: older runs are not read.
        inputs_of_runs = list(islice(candidates, last))
    nodeids = sorted({inputs.plan.nodeid for _, inputs in inputs_of_runs})
    if len(nodeids) > 1:
        raise SpecError(
            f"metric {metric!r} is in {len(nodeids)} experiments: choose one with --suite, such as {nodeids[0]}"
        )
    if not inputs_of_runs:
        raise SpecError(f"no finished run has scored {metric!r}: `crucible runs` lists the runs")
    points = trend(
        metric_facts(inputs_of_runs[0][1])[metric],
        [_scores_of_run(run, inputs, metric, adapter) for run, inputs in reversed(inputs_of_runs)],
        alpha=alpha,
    )
    print_result(_lines(points, nodeids[0], metric, 1 - alpha), points, as_json=as_json)


def _number(inputs: AnalysisInputs, metric: str, adapter: str) -> int | None:
    """Return the number of the arm; None if it has no scores of the metric."""
    names = [arm.name for arm in inputs.plan.arms]
    number = 0 if not adapter else names.index(adapter) if adapter in names else None
    return number if number is not None and metric in inputs.answers[number].scores else None


def _scores_of_run(run: RunSummary, inputs: AnalysisInputs, metric: str, adapter: str) -> RunScores:
    facts: MetricFacts = metric_facts(inputs)[metric]
    number = _number(inputs, metric, adapter) or 0
    return RunScores(
        run=run.id,
        started=run.started,
        arm=inputs.plan.arms[number].name,
        dataset=inputs.plan.dataset_sha256,
        scores=scores(
            facts, inputs.answers[number], samples=len(inputs.groups), repeats=inputs.plan.draws(number).size
        ),
        clusters=clusters_of(inputs.groups),
    )


def _lines(points: Sequence[TrendPoint], nodeid: str, metric: str, level: float) -> Iterator[str]:
    yield f"{metric} of {nodeid}, {len(points)} runs; the intervals hold together at {level * 100:g} %"
    yield ""
    heads = ("run", "started", "arm", "estimate", "n", "lost", "")
    rows = [
        (
            point.run, point.started[:16].replace("T", " "), point.estimate.arm,
            with_interval(point.estimate.value, point.estimate.interval),
            f"{point.estimate.n:,}", f"{point.estimate.lost:,}", SIGNS.get(point.change, ""),
        )
        for point in points
    ]  # fmt: skip
    align = ("left",) * 4 + ("right",) * 2 + ("left",)
    yield from tabulate([heads, *rows], tablefmt="plain", disable_numparse=True, colalign=align).splitlines()
