"""Report formats that read the run store: the HTML page, figures, and tables of all observations."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pytest_crucible.analyse.analysis import main_metric, score_table
from pytest_crucible.exports.table_files import Write, find_writer, write_csv, write_jsonl
from pytest_crucible.records import Analysis, Run, SampleColumns
from pytest_crucible.report.model import Chapter
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.runs.run_store import store_of
from pytest_crucible.store.conversations import load_exchanges, mean_latencies, outcome_states
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids
from pytest_crucible.store.tables import observations

# A faster arm is a file or a script: its latency is not that of a model.
INSTANT_S = 0.001


@contextlib.contextmanager
def chapters(run: Run) -> Iterator[tuple[Chapter, ...]]:
    """Yield a chapter for each experiment that began; its samples can be read while the context is open."""
    with store_of(run) as store:
        keys = {plan.nodeid: key for key, plan, _ in store.experiments(run.id)}
        yield tuple(_chapter(store, keys[analysis.plan.nodeid], analysis) for analysis in run.experiments)


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
        latency_s=tuple(hide_instant(mean_latencies(store, key, number, size)) for number in arms),
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


def hide_instant(seconds: list[float]) -> list[float]:
    """Return the latencies; NaN for each if the median does not reach `INSTANT_S`."""
    # A busy machine delays a few replies of any arm. NaN, of a sample without a reply, differs from itself.
    measured = sorted(latency for latency in seconds if latency == latency)
    is_instant = not measured or measured[len(measured) // 2] < INSTANT_S
    return [math.nan] * len(seconds) if is_instant else seconds


def __getattr__(name: str) -> Any:
    """Return `parquet_report`, or a figure such as `forest_svg`.

    A library that is missing is an error here, when the session looks its formats up, and so before the first request.
    """
    figure, _, kind = name.rpartition("_")
    if kind in ("svg", "pdf"):
        from pytest_crucible.report import plots

        return partial(_draw_figure, getattr(plots, figure), kind)
    if name == "parquet_report":
        return partial(_write_observations, find_writer("parquet"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _draw_figure(draw: Callable[[Run, Sequence[Chapter]], Any], kind: str, run: Run) -> bytes:
    from pytest_crucible.report import plots

    with chapters(run) as chapters_of_run:
        return plots.figure_bytes(draw(run, chapters_of_run), kind)


def html_report(run: Run) -> str:
    """Return a run as one HTML page."""
    # Imported here: other formats need no templates.
    from pytest_crucible.report.html import render_html
    from pytest_crucible.report.model import build_report
    from pytest_crucible.report.sections import worst_first

    run = worst_first(run)
    with chapters(run) as chapters_of_run:
        return render_html(build_report(run), chapters_of_run)


def _write_observations(write: Write, run: Run) -> bytes:
    """Return all observations of a run as a file's content, equal to the output of `crucible export`."""
    file = io.BytesIO()
    with store_of(run) as store:
        write(observations(store, run.id), file)
    return file.getvalue()


csv_report, jsonl_report = (partial(_write_observations, write) for write in (write_csv, write_jsonl))
