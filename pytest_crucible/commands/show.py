"""`crucible show` and `crucible report`: a stored run as its session reported it, or one sample's conversations."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible import builtin
from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.commands.pages import WithPages
from pytest_crucible.records import Run
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.report.conversation import conversation_lines
from pytest_crucible.report.json import run_document
from pytest_crucible.report.printable import printable
from pytest_crucible.report.terminal import summary
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.report_files import check_writable, report_files, write_report
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids, find_position, load_conversations, load_sample

# Characters of one line of a conversation: a reply is printed whole, and a file that a test sent by mistake is not.
LONGEST_LINE = 100_000
verbose_option = click.option("-v", "--verbose", count=True, help="Also methods and estimates; -vv the worst samples.")


@click.command("show", cls=WithPages, short_help="Show a stored run, or one sample's conversations.")
@run_argument
@store_option
@verbose_option
@click.option(
    "--sample", metavar="ID", help="Show what each arm was sent for this sample and what it replied, turn by turn."
)
@click.option("--reasoning", is_flag=True, help="With --sample: print the model's reasoning too, not only its length.")
@json_option
def show(run: str, store: str, verbose: int, sample: str | None, reasoning: bool, as_json: bool) -> None:
    """Show a stored run: the stored replies are analysed again, with the verdicts that its session gave.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run is shown.
    """
    with existing_store(store) as opened:
        run_id = opened.find_run(run)
        if sample is None:
            print_run(load_run(opened, run_id), verbose, as_json=as_json)
        else:
            _print_sample(opened, run_id, sample, reasoning=reasoning, as_json=as_json)


def print_run(run: Run, verbose: int, *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Print what the session printed at its end, and further notes."""
    head = f"run {run.id}, started {run.started[:19].replace('T', ' ')} UTC"
    lines = [line.text for line in summary(run, verbosity=verbose, width=shutil.get_terminal_size().columns)]
    print_result(map(printable, [head, *_origins(run), "", *lines, *notes]), run_document(run), as_json=as_json)


def _origins(run: Run) -> Iterator[str]:
    """Yield a line for each file of another harness that the run was imported from."""
    for file in run.environment.get("imported", ()):
        yield f"imported from {file['file']} ({' '.join((file['harness'], file['version'])).strip()})"


def _print_sample(store: RunStore, run: str, sample: str, *, reasoning: bool, as_json: bool) -> None:
    """Print the sample's conversations in every experiment of the run that has it. Raises SpecError where none has."""
    lines: list[str] = []
    documents: list[dict[str, Any]] = []
    for key, plan, _ in store.all_experiments(run):
        position = find_position(store, plan.dataset_sha256, sample)
        if position is not None and store.has_arms(key):
            stored = load_sample(store, plan.dataset_sha256, position)
            conversations = load_conversations(store, key, plan, position)
            lines += [
                *([""] if lines else []),
                *conversation_lines(plan.nodeid, stored, conversations, reasoning=reasoning),
            ]
            documents.append({"experiment": plan.nodeid, "sample": _document(stored), "conversations": conversations})
    if not documents:
        raise SpecError(f"run {run} has no sample {sample!r}: {_hint(store, run, sample)}")
    print_result(
        (printable(line, LONGEST_LINE) for line in lines), {"run": run, "experiments": documents}, as_json=as_json
    )


def _document(stored: Any) -> dict[str, Any]:
    # The names of columns are the store's own; programs read these keys.
    names = {
        "id": "sample_id",
        "group": "sample_group",
        "input": "input",
        "expected": "expected",
        "metadata": "metadata",
    }
    return {name: stored[column] for name, column in names.items()}


def _hint(store: RunStore, run: str, sample: str) -> str:
    sample_ids = [
        sample_id
        for _, plan, _ in store.all_experiments(run)
        for sample_id in all_sample_ids(store, plan.dataset_sha256)
    ]
    if not sample_ids:
        return "none of its experiments began"
    first = f"the first of its {len(sample_ids):,} samples is {sample_ids[0]!r:.200}"
    return suggest(sample, sample_ids, otherwise=first)


@click.command("report", short_help="Write report files of a stored run.")
@run_argument
@store_option
@click.option(
    "-o", "--output", "files", required=True, multiple=True, metavar="FILE", help="File to write; may be repeated."
)
@json_option
def write_reports(run: str, store: str, files: Sequence[str], as_json: bool) -> None:
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
