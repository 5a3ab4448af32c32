"""`crucible export`: a table of a stored run as a file."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.exports.formats import FORMATS, find_writer, write_file
from pytest_crucible.presets import EXPORTS
from pytest_crucible.records.number_format import quantity
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.tables import TABLES

WHAT = (*TABLES, *EXPORTS)


@click.command("export", short_help="Write a table of a stored run into a file.")
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
@click.option("--what", type=click.Choice(WHAT), default="observations", help="Which table.")
@json_option
def command(run: str, store: str, output: Path, what: str, as_json: bool) -> None:
    """Write a table of a stored run into a file: one row for each observation, reply, repeat, event or finding.

    RUN is a run's id, or its beginning; by default the latest.
    """
    # Checked before the store is opened: an unknown format needs no table.
    find_writer(output.suffix.removeprefix("."))
    with existing_store(store) as opened:
        run = opened.find_run(run)
        table = TABLES[what] if what in TABLES else load_object(EXPORTS[what])
        rows = write_file(table(opened, run), output)
    sentence = f"{quantity(rows, what.removesuffix('s'))} of run {run} written to {output}"
    print_result([sentence], {"run": run, "what": what, "rows": rows, "file": str(output)}, as_json=as_json)
