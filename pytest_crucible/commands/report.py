"""`crucible report`: a stored run, told in the same formats as a session tells its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible import builtin
from pytest_crucible.commands.options import json_option, run_argument, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.outputs import check, outputs, write
from pytest_crucible.recalling import recalled


@click.command("report", short_help="Tell a stored run, as files.")
@run_argument
@store_option
@click.option(
    "-o", "--output", "files", required=True, multiple=True, metavar="FILE", help="File to write; may be repeated."
)
@json_option
def command(run: str, store: str, files: Sequence[str], as_json: bool) -> None:
    """Tell a stored run, in as many files as are asked for, each in the format of its extension.

    RUN is the id of a run, or its beginning; without one it is the latest.
    """
    wanted = outputs(files, builtin.REPORTERS, Path())
    for output in wanted:  # before the store is opened: what cannot be written is not read
        check(output)
    with existing_store(store) as opened:
        found = recalled(opened, opened.find_run(run))
    for output in wanted:
        try:
            write(output, found)
        except SpecError as error:
            raise SpecError(f"report {str(output.path)!r} was not written: {error}") from error
    said = [f"report of run {found.id} written to {output.path}" for output in wanted]
    say(said, {"run": found.id, "files": [str(output.path) for output in wanted]}, as_json=as_json)
