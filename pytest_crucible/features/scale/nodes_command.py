"""`crucible nodes`: what each node of a run has sent, and which scores differently."""

from __future__ import annotations

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.records import Analysis, View
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import printable, table_lines
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.run_store import existing_store

SECTION = "nodes"


@click.command("nodes")
@run_argument
@store_option
@json_option
def nodes(run: str, store: str, as_json: bool) -> None:
    """Show what each node of a run has sent: blocks, rate, lost samples, retries, and scores that differ.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`; without it, the latest run.
    """
    with existing_store(store, reader="crucible nodes") as opened:
        loaded = load_run(opened, opened.find_run(run))
    views = {analysis.plan.nodeid: view for analysis in loaded.experiments if (view := _view(analysis)) is not None}
    if not views:
        raise SpecError(
            f"run {loaded.id} was sent by the session's own process, and has no nodes: start it with --crucible-executor=ray"
        )
    lines = [printable(line) for nodeid, view in views.items() for line in _lines(nodeid, view)]
    print_result(lines, {nodeid: view.document for nodeid, view in views.items()}, as_json=as_json)


def _view(analysis: Analysis) -> View | None:
    outcome = analysis.sections.get(SECTION)
    return None if outcome is None else outcome.view


def _lines(nodeid: str, view: View) -> list[str]:
    tables = [line for table in view.tables for line in table_lines(table)]
    return [nodeid, *tables, *(note.text for note in view.notes)]
