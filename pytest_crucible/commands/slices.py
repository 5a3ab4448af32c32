"""Pages of `crucible show`: `--by FIELD`, gaps between slices, and `--why-better`, where a difference lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.records import Comparison
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.printable import printable, table_lines
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.runs.slices import ExperimentFairness, ExplainedExperiment, explain_run, load_fairness, parse_by
from pytest_crucible.sections import fairness as fairness_section
from pytest_crucible.sections import slice_search, slices
from pytest_crucible.stats.number_format import p_equals, with_interval


@click.command("show")
@run_argument
@click.option(
    "--by",
    default="",
    metavar="FIELD",
    help="Gaps between the slices of a field, named as in a target: sex, 'sex & race', 'age(25, 45)'.",
)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Metric to compare; may be repeated.")
@click.option(
    "--reference", default="", metavar="SLICE", show_default="the largest", help="Slice to subtract from others."
)
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), metavar="A", show_default="the run's", help="Error rate."
)
@store_option
@json_option
def fairness(
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
        views.append(fairness_section.view(experiment.decisions, ()))
    for view in views:
        for table in view.tables:
            # The table of decisions has the rates of all slices already.
            is_repeated = table.title.startswith("By ") and experiment.decisions
            if table.verbosity < 3 and not is_repeated:
                yield from ("", *table_lines(table), *([f"    {table.note}"] if table.note else []))
        for note in view.notes:
            yield from ("", note.text)
    if experiment.changes:
        yield from ("", *map(_change_line, experiment.changes))


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
        "fairness": fairness_section.view(experiment.decisions, ()).document,
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


@click.command("show")
@run_argument
@click.option("--why-better", is_flag=True, expose_value=False, help="Where the difference between two arms lies.")
@click.option(
    "--metric", default="", metavar="M", show_default="the main metric", help="Metric whose difference is searched."
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Function of a sample that returns a text, a number or a bool; may be repeated.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of permutations and topics.")
@store_option
@json_option
def explain(run: str, metric: str, features: Sequence[str], seed: int, store: str, as_json: bool) -> None:
    """List the slices in which the candidate's difference from the first baseline is unlike that elsewhere.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run. Searched are fields of the
    samples, lengths, numbers, code, topics, quartiles of numbers and pairs of these. p-values and intervals hold for all slices
    together, and change no verdict.
    """
    with existing_store(store) as opened:
        run_id = opened.find_run(run)
        explained = explain_run(opened, run_id, metric, features, seed=seed)
    lines = [f"run {run_id}", *(line for each in explained for line in _search_lines(each))]
    document = {
        "run": run_id,
        "experiments": [{"experiment": each.nodeid, "search": each.result} for each in explained],
    }
    print_result(map(printable, lines), document, as_json=as_json)


def _search_lines(explained: ExplainedExperiment) -> Iterator[str]:
    result = explained.result
    yield from ("", explained.nodeid)
    if result is None:
        yield "too few samples have a score in both arms, or no slice has 20 samples inside and outside"
        return
    head = f"{result.metric}, {result.candidate} vs {result.baseline}, n={result.n:,}"
    if not result.findings:
        yield f"{head}: {slice_search.nothing(result)}"
        yield from _importance_lines(result)
        return
    yield head
    for table in slice_search.view(result, ()).tables:
        yield from table_lines(table)
        yield f"    {table.note}"
    yield from _importance_lines(result)


def _importance_lines(result: slice_search.SearchResult) -> Iterator[str]:
    ranked = [f"{each.feature} {each.value:.3f}" for each in result.importances[:5] if each.value > 0]
    if ranked:
        yield f"features that predict the difference out of fold (share of its variance): {', '.join(ranked)}"
