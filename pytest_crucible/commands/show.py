"""`crucible show`: a stored run, as its session told it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

import click

from pytest_crucible.commands.options import json_option, run_argument, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.recalling import recalled
from pytest_crucible.records import Run
from pytest_crucible.report.json import run_document
from pytest_crucible.report.printable import printable
from pytest_crucible.report.terminal import summary

verbose_option = click.option("-v", "--verbose", count=True, help="Methods and estimates too; -vv the worst samples.")


@click.command("show", short_help="A stored run, as its session told it.")
@run_argument
@store_option
@verbose_option
@json_option
def command(run: str, store: str, verbose: int, as_json: bool) -> None:
    """A stored run, as its session told it: analysed anew from the stored answers, with the verdicts that were given.

    RUN is the id of a run, or its beginning, `latest` or `tag:NAME`; without one it is the latest.
    """
    with existing_store(store) as opened:
        say_run(recalled(opened, opened.find_run(run)), verbose, as_json=as_json)


def say_run(found: Run, verbose: int, *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """All that a session says in the end, and what is to be known besides."""
    head = f"run {found.id}, started {found.started[:19].replace('T', ' ')} UTC"
    lines = [one.text for one in summary(found, verbosity=verbose, width=shutil.get_terminal_size().columns)]
    say(map(printable, [head, *_origins(found), "", *lines, *notes]), run_document(found), as_json=as_json)


def _origins(run: Run) -> Iterator[str]:
    """Of a run that another harness has asked: its files."""
    for one in run.environment.get("imported", ()):
        yield f"imported from {one['file']} ({' '.join((one['harness'], one['version'])).strip()})"
