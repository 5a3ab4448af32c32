"""`crucible export`: a table of a stored run as a file, or another file that a feature makes of several runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.exports import FORMATS as TABLE_FORMATS
from pytest_crucible.exports import FurtherExport, find_writer, write_file
from pytest_crucible.features import load_rows
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.tables import TABLES

EXPORTS: Mapping[str, str] = dict(row for _, row in load_rows("exports"))
"""Tables of features: name -> function of a run store and a run."""
FURTHER: tuple[FurtherExport, ...] = tuple(row for _, row in load_rows("further_exports"))
WHAT = (*TABLES, *EXPORTS, *(name for row in FURTHER for name in row.names))


def _with_further_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (option for row in reversed(FURTHER) for option in reversed(row.options)):
        command = option(command)
    return command


@click.command("export", short_help="Write a table or a training set of stored runs into a file.")
@click.argument("runs", nargs=-1)
@store_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"FILE.{{{','.join(TABLE_FORMATS)}}} for a table; JSON Lines for a training set, which without it is only counted.",
)
@click.option("--what", type=click.Choice(WHAT), default="observations", help="Which table, or which training set.")
@_with_further_options
@json_option
def export(runs: tuple[str, ...], store: str, output: Path | None, what: str, as_json: bool, **settings: Any) -> None:
    """Write a table of a stored run into a file: one row for each observation, reply, repeat, event, finding or variant.

    With --what sft, dpo or kto: write a training set from the practice samples of one or several runs. With --what adversarial
    its rows are the attacked prompts whose replies failed.

    RUN is a run's id, or its beginning; by default the latest.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    further = next((row for row in FURTHER if what in row.names), None)
    if further is None:
        _export_table(runs, store, output, what, chosen, as_json=as_json)
    else:
        print_result(*further.write(runs, store, output, what, chosen), as_json=as_json)


def _export_table(
    runs: tuple[str, ...], store: str, output: Path | None, what: str, chosen: Mapping[str, Any], *, as_json: bool
) -> None:
    if chosen:
        name = min(chosen).replace("file_format", "format").replace("arm", "of").replace("_", "-")
        owner = next(row for row in FURTHER)
        raise SpecError(
            f"--{name} is for {owner.noun}s, and --what {what} is a table: add --what {', '.join(owner.tasks)}"
        )
    if output is None:
        raise SpecError(f"--what {what} needs -o FILE: name a file that ends in .{', .'.join(TABLE_FORMATS)}")
    if len(runs) > 1:
        raise SpecError(f"--what {what} is a table of one run, not of {len(runs)}: export each into a file of its own")
    # Checked before the store is opened: an unknown format needs no table.
    find_writer(output.suffix.removeprefix("."))
    with existing_store(store) as opened:
        run = opened.find_run(*runs)
        table = TABLES[what] if what in TABLES else load_object(EXPORTS[what])
        rows = write_file(table(opened, run), output)
    sentence = f"{quantity(rows, _row_name(what))} of run {run} written to {output}"
    print_result([sentence], {"run": run, "what": what, "rows": rows, "file": str(output)}, as_json=as_json)


def _row_name(what: str) -> str:
    """Return what one row of a table is called.

    >>> _row_name("replies"), _row_name("observations")
    ('reply', 'observation')
    """
    return f"{what[:-3]}y" if what.endswith("ies") else what.removesuffix("s")
