"""`crucible export`: a table of a stored run as a file, or a training set from several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.exports.formats import FORMATS as TABLE_FORMATS
from pytest_crucible.exports.formats import find_writer, write_file
from pytest_crucible.features import load_rows
from pytest_crucible.records import TASKS
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import TABLES
from pytest_crucible.training_sets.build import Shape
from pytest_crucible.training_sets.formats import FORMATS

ADVERSARIAL = "adversarial"
EXPORTS: Mapping[str, str] = dict(row for _, row in load_rows("exports"))
"""Tables of features: name -> function of a run store and a run."""
WHAT = (*TABLES, *EXPORTS, *TASKS, ADVERSARIAL)
_SHARE = click.FloatRange(0, 1, max_open=True)


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
@click.option("--format", "file_format", type=click.Choice(FORMATS), help="Format of a training set (trl).")
@click.option("--of", "arm", metavar="ARM", help="The arm whose replies become rows (the candidate).")
@click.option("--on", metavar="METRIC", help="The metric that decides which replies passed, such as 'score >= 0.5'.")
@click.option("--gap", type=click.FloatRange(min=0), help="The least difference of a chosen and a rejected score (0).")
@click.option("--holdout", type=_SHARE, metavar="S", help="Write this share of the groups to a second file (0).")
@click.option(
    "--replay", type=(_SHARE, click.Path(path_type=Path)), metavar="SHARE FILE", help="Mix in this share of old rows."
)
@click.option("--seed", type=int, metavar="N", help="Draws the holdout and the old rows (0).")
@click.option(
    "--allow-gate-samples", is_flag=True, default=None, help="Also use samples that verdicts depend on; recorded."
)
@json_option
def export(runs: tuple[str, ...], store: str, output: Path | None, what: str, as_json: bool, **settings: Any) -> None:
    """Write a table of a stored run into a file: one row for each observation, reply, repeat, event, finding or variant.

    With --what sft, dpo or kto: write a training set from the practice samples of one or several runs. With --what adversarial
    its rows are the attacked prompts whose replies failed.

    RUN is a run's id, or its beginning; by default the latest.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if what in (*TASKS, ADVERSARIAL):
        _export_training_set(runs, store, output, what, chosen, as_json=as_json)
    else:
        _export_table(runs, store, output, what, chosen, as_json=as_json)


def _export_table(
    runs: tuple[str, ...], store: str, output: Path | None, what: str, chosen: Mapping[str, Any], *, as_json: bool
) -> None:
    if chosen:
        name = min(chosen).replace("file_format", "format").replace("arm", "of").replace("_", "-")
        raise SpecError(f"--{name} is for training sets, and --what {what} is a table: add --what {', '.join(TASKS)}")
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


def _export_training_set(
    runs: tuple[str, ...], store: str, output: Path | None, what: Any, chosen: Mapping[str, Any], *, as_json: bool
) -> None:
    # The import loads the readers of datasets, which tables do not need.
    from pytest_crucible.runs.training_sets import TrainingSetRequest, make_training_set, set_facts, write_training_set

    shape = Shape(
        task="sft" if what == ADVERSARIAL else what,
        format=chosen.get("file_format", "trl"),
        holdout=chosen.get("holdout", 0.0),
        replay=chosen.get("replay", (0.0, None))[0],
        seed=chosen.get("seed", 0),
    )
    with existing_store(store) as opened:
        request = TrainingSetRequest(
            runs=_find_runs(opened, runs),
            shape=shape,
            attacked=what == ADVERSARIAL,
            replay_file=chosen.get("replay", (0.0, None))[1],
            **{name: chosen[name] for name in ("arm", "on", "gap", "allow_gate_samples") if name in chosen},
        )
        sourced = make_training_set(opened, request)
        files = write_training_set(opened, sourced, request, output) if output is not None else []
        facts = set_facts(sourced, request)
    counts = {str(path): rows for path, rows in files}
    document = {**facts, "rows": len(sourced.training_set.lines), "holdout_rows": len(sourced.training_set.holdout)}
    print_result(_lines(facts, document, counts), {**document, "files": counts}, as_json=as_json)


def _find_runs(store: RunStore, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the runs, each once, the oldest first: the order of the names changes nothing."""
    run_ids = {store.find_run(name) for name in named or ("",)}
    return tuple(sorted(run_ids, key=lambda run: (store.run(run)["started"], run)))


def _lines(facts: Mapping[str, Any], counts: Mapping[str, Any], files: Mapping[str, int]) -> list[str]:
    """Return the lines to print: the number of rows, their file, and why other replies are missing."""
    runs, replies = quantity(len(facts["runs"]), "run"), f"{facts['replies']:,} replies"
    rows = counts["rows"] + counts["holdout_rows"]
    lines = [f"{quantity(rows, 'row')} of --what {facts['what']} from {replies} of {runs}"]
    lines += [f"  {quantity(count, 'row')} written to {path} ({facts['format']})" for path, count in files.items()]
    if facts["replay"]:
        lines.append(f"  {quantity(facts['replay']['rows'], 'row')} of them from {facts['replay']['file']}")
    lines += [f"  {count:,} left out: {reason}" for reason, count in facts["left_out"].items()]
    return lines if files else [*lines, "nothing is written: add -o FILE"]
