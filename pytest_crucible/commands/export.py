"""`crucible export`: a stored run as a table, in the format of another harness or tracker, or what a feature makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import add_options, json_option, print_result, store_option
from pytest_crucible.exports.files import FurtherExport
from pytest_crucible.exports.results import WriteResults, Written
from pytest_crucible.exports.table_files import FORMATS as TABLE_FORMATS
from pytest_crucible.exports.table_files import find_writer, write_file
from pytest_crucible.features import load_rows
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.tables import TABLES

EXPORTS: Mapping[str, str] = dict(row for _, row in load_rows("exports"))
"""Tables of features: name -> function of a run store and a run."""
FURTHER: tuple[FurtherExport, ...] = tuple(row for _, row in load_rows("further_exports"))
WRITERS: Mapping[str, str] = {
    "eee": "pytest_crucible.exports.every_eval_ever:write_eee",
    "inspect": "pytest_crucible.exports.inspect_logs:write_inspect",
    "lm-eval": "pytest_crucible.exports.lm_eval_samples:write_lm_eval",
    "mlflow": "pytest_crucible.exports.mlflow_runs:write_mlflow",
    "wandb": "pytest_crucible.exports.wandb_runs:write_wandb",
}
"""Formats of other harnesses and trackers: name -> its writer."""
WHAT = (*TABLES, *EXPORTS, *WRITERS, *(name for row in FURTHER for name in row.names))


@click.command("export")
@click.argument("runs", nargs=-1)
@store_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help=f"FILE.{{{','.join(TABLE_FORMATS)}}} for a table; FOLDER for another harness; JSON Lines for a training set, which "
    "without it is only counted.",
)
@click.option(
    "--what", type=click.Choice(WHAT), default="observations", help="Which table, other format, or training set."
)
@click.option("--developer", metavar="NAME", help="With --what eee: who developed the models, such as meta-llama.")
@add_options(*(option for row in FURTHER for option in row.options))
@json_option
def export(
    runs: tuple[str, ...],
    store: str,
    output: Path | None,
    what: str,
    developer: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Write a table of a stored run into a file: one row for each observation, reply, repeat, event, finding or variant.

    With --what eee, inspect or lm-eval: write the results in the format of Every Eval Ever, Inspect or lm-evaluation-harness
    into FOLDER. With --what mlflow or wandb: enter the run there, as that tracker is configured, or offline into FOLDER.

    With --what sft, dpo or kto: write a training set from the practice samples of one or several runs. With --what adversarial
    its rows are the attacked prompts whose replies failed.

    RUN is a run's id, or its beginning; by default the latest.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if developer is not None and what != "eee":
        raise SpecError(f"--developer is for --what eee, not for --what {what}: leave it out")
    further = next((row for row in FURTHER if what in row.names), None)
    if further is None:
        _refuse_options(what, chosen)
        _refuse_runs(what, runs)
        if what in WRITERS:
            own = {} if developer is None else {"developer": developer}
            _export_results(runs, store, output, what, own, as_json=as_json)
        else:
            _export_table(runs, store, output, what, as_json=as_json)
    else:
        print_result(*further.write(runs, store, output, what, chosen), as_json=as_json)


def _refuse_options(what: str, chosen: Mapping[str, Any]) -> None:
    if chosen:
        name = min(chosen).replace("file_format", "format").replace("arm", "of").replace("_", "-")
        owner = next(row for row in FURTHER)
        raise SpecError(
            f"--{name} is for {owner.noun}s, and --what {what} is {'a table' if what not in WRITERS else 'not one'}: add --what "
            f"{', '.join(owner.tasks)}"
        )


def _refuse_runs(what: str, runs: tuple[str, ...]) -> None:
    if len(runs) > 1:
        kind = "is a table of one run" if what not in WRITERS else "writes one run"
        raise SpecError(f"--what {what} {kind}, not of {len(runs)}: export each into a file of its own")


def _export_results(
    runs: tuple[str, ...], store: str, output: Path | None, what: str, own: Mapping[str, str], *, as_json: bool
) -> None:
    """Write a run in the format of another program, and print where, and what the format cannot hold."""
    # Imported here: a table needs no analysis.
    from pytest_crucible.runs.exported_results import load_results

    write: WriteResults = partial(load_object(WRITERS[what]), **own)
    with existing_store(store, reader="crucible export") as opened:
        run = opened.find_run(*runs)
        written = list(write(load_results(opened, run), output))
    _check_places(written)
    lines = [
        line
        for each in written
        for line in (
            f"{quantity(each.results, each.noun)} of run {run} written to {each.place}",
            *(f"  {note}" for note in each.notes),
        )
    ]
    print_result(lines, {"run": run, "what": what, "written": written}, as_json=as_json)


def _check_places(written: Sequence[Written]) -> None:
    """Raise SpecError where two results have one file: the names of files have fewer characters than those of arms."""
    twice = next((place for place, count in Counter(each.place for each in written).items() if count > 1), None)
    if twice is not None:
        raise SpecError(
            f"two tests or arms have one file, {twice}, which has only the last: rename one, or export as eee"
        )


def _export_table(runs: tuple[str, ...], store: str, output: Path | None, what: str, *, as_json: bool) -> None:
    if output is None:
        raise SpecError(f"--what {what} needs -o FILE: name a file that ends in .{', .'.join(TABLE_FORMATS)}")
    # Checked before the store is opened: an unknown format needs no table.
    find_writer(output.suffix.removeprefix("."))
    with existing_store(store, reader="crucible export") as opened:
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
