"""`crucible export`: what a run has stored, as a file; and the same as a report of a session."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

from pytest_crucible.cli_store import add_run_and_store, existing_store
from pytest_crucible.exports.formats import FORMATS, Write, write_file, writer
from pytest_crucible.exports.text import write_csv, write_jsonl
from pytest_crucible.numerals import counted
from pytest_crucible.records import Run
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import TABLES, observations


def add_command(commands: Any) -> None:
    """Enter the command with its options."""
    parser = commands.add_parser(
        "export",
        help="write what a run has stored into a file",
        description="Write what a run has stored into a file, one row an observation, a reply or an event.",
    )
    add_run_and_store(parser)
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FILE", help=f"FILE.{{{','.join(FORMATS)}}}"
    )
    parser.add_argument("--what", choices=tuple(TABLES), default="observations", help="default: observations")
    parser.set_defaults(run_command=export)


def export(given: argparse.Namespace) -> int:
    """Write the file and say so. Raises CrucibleError."""
    writer(given.output.suffix.removeprefix("."))  # before the store is opened: what cannot be written is not read
    store = existing_store(given.store)
    try:
        run = store.find_run(given.run)
        rows = write_file(TABLES[given.what](store, run), given.output)
    finally:
        store.close()
    print(f"{counted(rows, given.what.removesuffix('s'))} of run {run} written to {given.output}")
    return 0


def csv_report(run: Run) -> bytes:
    """All observations as CSV."""
    return observations_of(run, write_csv)


def jsonl_report(run: Run) -> bytes:
    """All observations as JSON Lines."""
    return observations_of(run, write_jsonl)


def observations_of(run: Run, write: Write) -> bytes:
    """All observations of a run, as a file's content."""
    file = io.BytesIO()
    store = RunStore(run.store)
    try:
        write(observations(store, run.id), file)
    finally:
        store.close()
    return file.getvalue()
