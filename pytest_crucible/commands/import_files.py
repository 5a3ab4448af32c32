"""`crucible import`: results of other harnesses, stored as a run."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from pytest_crucible.commands.file_options import fact_options, question_options
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.show import verdict_status
from pytest_crucible.importers.formats import read_results
from pytest_crucible.importers.metric_facts import Declared
from pytest_crucible.importers.results import ImportedFile
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Run
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.report.json import run_document
from pytest_crucible.report.printable import printable
from pytest_crucible.report.terminal import summary
from pytest_crucible.runs.imported import ImportedRun, ImportOptions
from pytest_crucible.runs.named_arms import read_claims
from pytest_crucible.runs.plugins import importers
from pytest_crucible.runs.report_facts import add_stored_facts
from pytest_crucible.runs.run_store import session_equal_inputs
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as",
    "harness",
    default="",
    metavar="HARNESS",
    show_default="detected from their content",
    help=f"Harness that wrote the files: {', '.join(importers())}.",
)
@click.option(
    "--arm", "arms", multiple=True, metavar="NAME", help="Name of a file's arm; once for each file, in their order."
)
@click.option("--candidate", default="", metavar="NAME", show_default="the first arm", help="The arm to evaluate.")
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="A quality target; may be repeated.")
@question_options
@click.option("--lower", multiple=True, metavar="METRIC", help="A metric where lower is better; may be repeated.")
@click.option("--higher", multiple=True, metavar="METRIC", help="A metric where higher is better; may be repeated.")
@fact_options
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), default=DEFAULT_ALPHA, metavar="A", help="Error rate."
)
@store_option
@json_option
def import_results(
    files: Sequence[str],
    harness: str,
    arms: Sequence[str],
    candidate: str,
    targets: Sequence[str],
    columns: Mapping[str, str],
    group: str,
    equal_inputs: str | None,
    lower: Sequence[str],
    higher: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    reaches: Mapping[str, float],
    unpaired: bool,
    arms_differ_in: tuple[str, ...],
    alpha: float,
    store: str,
    as_json: bool,
    **claimed: Any,
) -> int:
    """Read the results of other harnesses, sample by sample, and store them as a run with verdicts.

    The first arm of the first FILE is the candidate, and all other arms with the same samples are its baselines. Exits 1 when
    a verdict is missed, or a target or a margin is impossible.
    """
    quality_targets = [parse_target(text) for text in targets]
    contrasts, directions = read_claims(**claimed)
    declared = Declared(
        lower=frozenset(lower), higher=frozenset(higher), ranges=ranges, reaches=reaches
    ).with_directions(directions)
    files_read = [
        file for path in files for file in read_results(path, harness, columns, group=group, readers=importers())
    ]
    wishes = ImportOptions(
        arms=arms,
        candidate=candidate,
        targets=quality_targets,
        contrasts=contrasts,
        declared=declared,
        alpha=alpha,
        equal_inputs=equal_inputs or session_equal_inputs(),
        unpaired=unpaired,
        arms_differ_in=arms_differ_in,
    )
    adoption = ImportedRun.of(files_read, wishes)
    run = _store_run(adoption, store)
    _print_run(run, files_read, adoption.notes, as_json=as_json)
    return run.exit_status


def _store_run(adoption: ImportedRun, store: str) -> Run:
    with contextlib.closing(RunStore(store)) as opened:
        run = adoption.enter(opened)
        # A session's status comes from pytest; an imported run has only its verdicts.
        run = replace(run, exit_status=verdict_status(run))
        opened.set_exit_status(run.id, run.exit_status)
    return run


def _print_run(run: Run, files: Sequence[ImportedFile], notes: Sequence[str], *, as_json: bool) -> None:
    run = add_stored_facts(run) if as_json else run
    lines = [line.text for line in summary(run, verbosity=0, width=shutil.get_terminal_size().columns)]
    lines_printed = [*_origins(files), "", *lines, *notes, f"stored as run {run.id} in {run.store}"]
    print_result(map(printable, lines_printed), {**run_document(run), "notes": notes}, as_json=as_json)


def _origins(files: Sequence[ImportedFile]) -> Iterator[str]:
    for file in files:
        arms = ", ".join(
            f"{results.arm} on {results.task} ({quantity(len(results.rows), 'result')})" for results in file.results
        )
        yield f"{file.path}: {' '.join((file.harness, file.version)).strip()}, {arms}"
