"""`crucible report`: a stored run, told in the same formats as a session tells its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_crucible import builtin
from pytest_crucible.cli_store import add_run_and_store, existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.outputs import check, outputs, write
from pytest_crucible.recalling import recalled


def add_command(commands: Any) -> None:
    """Enter the command with its options."""
    parser = commands.add_parser(
        "report",
        help="tell a stored run, as a file",
        description="Tell a stored run, in as many files as are asked for, each in the format of its extension.",
    )
    add_run_and_store(parser)
    parser.add_argument(
        "-o", "--output", required=True, action="append", metavar="FILE", help="file to write; may be repeated"
    )
    parser.set_defaults(run_command=lambda given: report(given.run, given.store, given.output))


def report(run: str, store: str, files: Sequence[str]) -> int:
    """Write the files of a run that begins so and say so. Raises CrucibleError."""
    wanted = outputs(files, builtin.REPORTERS, Path())
    for output in wanted:  # before the store is opened: what cannot be written is not read
        check(output)
    opened = existing_store(store)
    try:
        found = recalled(opened, opened.find_run(run))
    finally:
        opened.close()
    for output in wanted:
        try:
            write(output, found)
        except SpecError as error:
            raise SpecError(f"report {str(output.path)!r} was not written: {error}") from error
        print(f"report of run {found.id} written to {output.path}")
    return 0
