"""`crucible why`: what a verdict is made of, and what depends on a file, a checkpoint or a commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.why_lines import verdict_lines
from pytest_crucible.records import Run, Verdict
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.run_store import existing_store


@click.command("why")
@run_argument
@click.argument("subject", default="")
@store_option
@json_option
def why(run: str, subject: str, store: str, as_json: bool) -> None:
    """Show what a verdict of a run is made of: its rule, numbers, replies, and what these were made from.

    SUBJECT is that of the verdict, such as "accuracy: v2 vs v1". Without it, each verdict that is not met is shown.
    """
    with existing_store(store) as opened:
        stored = load_run(opened, opened.find_run(run))
        graph = build_graph(opened, stored, _find_verdicts(stored, subject))
    print_result(_lines(stored, graph), graph, as_json=as_json)


def _find_verdicts(run: Run, subject: str) -> Sequence[Verdict]:
    """Return the verdicts with a subject; without one those that are not met. Raises SpecError."""
    if not subject:
        return [verdict for verdict in run.verdicts if verdict.state != "met" or verdict.suite_error]
    verdicts = [each for each in run.verdicts if subject in (each.subject, f"{each.nodeid}::{each.subject}")]
    if not verdicts:
        hint = suggest(subject, [verdict.subject for verdict in run.verdicts])
        raise SpecError(f"run {run.id} has no verdict {subject!r}: {hint}")
    return verdicts


def _lines(run: Run, graph: Graph) -> Iterator[str]:
    verdicts = [node for node in graph.nodes.values() if node.type == "verdict"]
    if not verdicts:
        yield f"all verdicts of run {run.id} are met"
    for number, verdict in enumerate(verdicts):
        yield from [""] if number else []
        yield from verdict_lines(graph, verdict)
