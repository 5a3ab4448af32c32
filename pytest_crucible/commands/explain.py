"""`crucible show --why-better`: slices in which the difference between the arms of a stored run is unlike that elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.report.printable import printable, table_lines
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.runs.slices import ExplainedExperiment, explain_run
from pytest_crucible.sections import slice_search


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
def command(run: str, metric: str, features: Sequence[str], seed: int, store: str, as_json: bool) -> None:
    """List the slices in which the candidate's difference from the first baseline is unlike that elsewhere.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run. Searched are fields of the
    samples, lengths, numbers, code, topics, quartiles of numbers and pairs of these. p-values and intervals hold for all slices
    together, and change no verdict.
    """
    with existing_store(store) as opened:
        run_id = opened.find_run(run)
        explained = explain_run(opened, run_id, metric, features, seed=seed)
    lines = [f"run {run_id}", *(line for each in explained for line in _lines(each))]
    document = {"run": run_id, "experiments": [_document(each) for each in explained]}
    print_result(map(printable, lines), document, as_json=as_json)


def _lines(explained: ExplainedExperiment) -> Iterator[str]:
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


def _document(explained: ExplainedExperiment) -> dict[str, Any]:
    return {"experiment": explained.nodeid, "search": explained.result}
