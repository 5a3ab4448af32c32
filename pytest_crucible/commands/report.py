"""`crucible report`: report files of a stored run, in the formats of a session's reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible import builtin
from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.report_files import check_writable, report_files, write_report
from pytest_crucible.runs.run_store import existing_store


@click.command("report", short_help="Write report files of a stored run.")
@run_argument
@store_option
@click.option(
    "-o", "--output", "files", required=True, multiple=True, metavar="FILE", help="File to write; may be repeated."
)
@json_option
def command(run: str, store: str, files: Sequence[str], as_json: bool) -> None:
    """Write report files of a stored run, each in the format of its extension.

    RUN is a run's id, or its beginning; by default the latest.
    """
    outputs = report_files(files, builtin.REPORTERS, Path())
    # Checked first: analysing a large run takes a while, and would be in vain if no file can be written.
    for output in outputs:
        check_writable(output)
    with existing_store(store) as opened:
        stored = load_run(opened, opened.find_run(run), decide_again=True)
    for output in outputs:
        try:
            write_report(output, stored)
        except SpecError as error:
            raise SpecError(f"report {str(output.path)!r} was not written: {error}") from error
    lines = [f"report of run {stored.id} written to {output.path}" for output in outputs]
    print_result(lines, {"run": stored.id, "files": [str(output.path) for output in outputs]}, as_json=as_json)
