"""`crucible export`: what a run has stored, as a file."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, run_argument, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.exports.formats import FORMATS, write_file, writer
from pytest_crucible.numerals import counted
from pytest_crucible.store.tables import TABLES


@click.command("export", short_help="Write what a run has stored into a file.")
@run_argument
@store_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"FILE.{{{','.join(FORMATS)}}}",
)
@click.option("--what", type=click.Choice(tuple(TABLES)), default="observations", help="Which table.")
@json_option
def command(run: str, store: str, output: Path, what: str, as_json: bool) -> None:
    """Write what a run has stored into a file, one row an observation, a reply, an event or a finding.

    RUN is the id of a run, or its beginning; without one it is the latest.
    """
    writer(output.suffix.removeprefix("."))  # before the store is opened: what cannot be written is not read
    with existing_store(store) as opened:
        run = opened.find_run(run)
        rows = write_file(TABLES[what](opened, run), output)
    said = f"{counted(rows, what.removesuffix('s'))} of run {run} written to {output}"
    say([said], {"run": run, "what": what, "rows": rows, "file": str(output)}, as_json=as_json)
