"""The samples of a run, read from the run store for reports that show single samples."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial

from pytest_crucible.analyse.analysis import main_metric, score_table
from pytest_crucible.records import Analysis, Run, SampleColumns
from pytest_crucible.report.experiment_page import Chapter
from pytest_crucible.report.model import build_report
from pytest_crucible.report.page.render import render_html
from pytest_crucible.report.truncate import worst_first
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sample_rows import all_sample_ids, load_exchanges, mean_latencies, outcome_states

# A faster arm is a file or a script: its latency is not that of a model.
INSTANT_S = 0.001


@contextlib.contextmanager
def chapters(run: Run) -> Iterator[tuple[Chapter, ...]]:
    """Yield a chapter for each experiment that began; its samples can be read while the context is open."""
    store = RunStore(run.store)
    try:
        keys = {plan.nodeid: key for key, plan, _ in store.experiments(run.id)}
        yield tuple(_chapter(store, keys[analysis.plan.nodeid], analysis) for analysis in run.experiments)
    finally:
        store.close()


def _chapter(store: RunStore, key: int, analysis: Analysis) -> Chapter:
    plan = analysis.plan
    inputs = analysis_inputs(load_experiment(store, key), analysis.finished)
    table = score_table(inputs)
    metric = main_metric(plan, table.scores)
    metric_names = [metric, *(name for claim in (*plan.contrasts, *plan.targets) for name in claim.metrics)]
    arms, size = range(len(plan.arms)), len(inputs.groups)
    columns = SampleColumns(
        ids=all_sample_ids(store, plan.dataset_sha256),
        groups=inputs.groups,
        scores={name: tuple(arm.values.tolist() for arm in of_arms) for name, of_arms in table.scores.items()},
        latency_s=tuple(_worth_telling(mean_latencies(store, key, number, size)) for number in arms),
        states=tuple(outcome_states(store, key, number, size) for number in arms),
        expected=inputs.expected,
        replies={
            name: tuple(arm.units.values.reshape(size, -1).tolist() for arm in of_arms if arm.units is not None)
            for name, of_arms in table.scores.items()
            if all(arm.units is not None for arm in of_arms)
        },
    )
    return Chapter(
        analysis=analysis,
        metric=metric,
        judged=tuple(dict.fromkeys(name for name in metric_names if name is not None and name in table.scores)),
        columns=columns,
        facts=table.facts,
        clusters=table.clusters,
        read=partial(load_exchanges, store, key, plan),
    )


def _worth_telling(seconds: list[float]) -> list[float]:
    """Return the latencies; NaN for each if none reaches `INSTANT_S`."""
    # NaN if a sample has no reply: comparing with itself removes it, because `max` may return it.
    longest = max((latency for latency in seconds if latency == latency), default=0.0)
    return seconds if longest >= INSTANT_S else [math.nan] * len(seconds)


def html_report(run: Run) -> str:
    """Return a run as one HTML page."""
    run = worst_first(run)
    with chapters(run) as chapters_of_run:
        return render_html(build_report(run), chapters_of_run)
