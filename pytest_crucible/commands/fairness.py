"""`crucible fairness`: the extremes of the slices of a field in a stored run, and how they changed between its arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from tabulate import tabulate

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.records import Comparison, Table
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.runs.fairness import ExperimentFairness, load_fairness, parse_by
from pytest_crucible.sections import fairness, slices
from pytest_crucible.stats.number_format import p_equals, with_interval


@click.command("fairness", short_help="Gaps between the slices of a field, in a stored run.")
@run_argument
@click.option("--by", required=True, metavar="FIELD", help="Field as in a target: sex, 'sex & race', 'age(25, 45)'.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Metric to compare; may be repeated.")
@click.option(
    "--reference", default="", metavar="SLICE", show_default="the largest", help="Slice to subtract from others."
)
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), metavar="A", show_default="the run's", help="Error rate."
)
@store_option
@json_option
def command(
    run: str, by: str, metrics: Sequence[str], reference: str, alpha: float | None, store: str, as_json: bool
) -> None:
    """Show the largest gap, the smallest ratio and the worst mean of the slices of a field, in all arms of a stored run.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run. An interval is formed by the two
    bounds that would decide a target. Changes from a baseline to the candidate are adjusted by Holm. Exits 0: a target decides.
    """
    fields = parse_by(by)
    with existing_store(store) as opened:
        run_id = opened.find_run(run)
        level = opened.run(run_id)["alpha"] if alpha is None else alpha
        experiments = load_fairness(opened, run_id, fields, metrics, reference, alpha=level)
    lines = [f"run {run_id}, {fields}", *(line for each in experiments for line in _lines(each))]
    document = {"run": run_id, "by": str(fields), "experiments": [_document(each) for each in experiments]}
    print_result(map(printable, lines), document, as_json=as_json)


def _lines(experiment: ExperimentFairness) -> Iterator[str]:
    yield from ("", experiment.nodeid)
    views = [slices.view(experiment.slices, ())]
    if experiment.decisions:
        views.append(fairness.view(experiment.decisions, ()))
    for view in views:
        for table in view.tables:
            # The table of decisions has the rates of all slices already.
            is_repeated = table.title.startswith("By ") and experiment.decisions
            if table.verbosity < 3 and not is_repeated:
                yield from ("", *_table_lines(table))
        for note in view.notes:
            yield from ("", note.text)
    if experiment.changes:
        yield from ("", *map(_change_line, experiment.changes))


def _table_lines(table: Table) -> Iterator[str]:
    aligned = ["right" if head in table.numbers else "left" for head in table.heads]
    yield from tabulate(
        [[printable_cell(cell) for cell in row.cells] for row in table.rows],
        headers=table.heads,
        tablefmt="plain",
        colalign=aligned,
        disable_numparse=True,
    ).splitlines()
    if table.note:
        yield f"    {table.note}"


def _change_line(change: Comparison) -> str:
    """Return `gap(correct by sex): v2 vs v1: -0.034 [-0.039, -0.028], adjusted p < 0.001`; positive is fairer."""
    subject = change.contrast.subject(change.candidate)
    if change.difference is None:
        return f"{subject}: {change.note or 'nothing to compare'}"
    if change.ratio is not None:
        value, fairer = f"{with_interval(change.ratio.value, change.ratio.interval)} times the baseline", "above 1"
    else:
        value, fairer = with_interval(change.difference, change.interval, sign=True), "positive"
    better = "better" if change.contrast.statistic == "worst" else "fairer"
    return f"{subject}: {value}, adjusted {p_equals(change.p_adjusted)} ({fairer} is {better})"


def _document(experiment: ExperimentFairness) -> dict[str, Any]:
    return {
        "experiment": experiment.nodeid,
        "slices": slices.view(experiment.slices, ()).document,
        "fairness": fairness.view(experiment.decisions, ()).document,
        "changes": [
            {
                "measure": change.contrast.expression,
                "candidate": change.candidate,
                "baseline": change.contrast.baseline,
                "n": change.pairs,
                "difference": change.difference,
                **interval_ends(change.interval),
                "p_value": change.p_value,
                "p_adjusted": change.p_adjusted,
            }
            for change in experiment.changes
        ],
    }
