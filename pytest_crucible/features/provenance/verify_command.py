"""`crucible verify`: whether the rows of a run are as they were written."""

from __future__ import annotations

import string
from collections.abc import Iterator

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.features.provenance.canonical_rows import SEALED_SINCE
from pytest_crucible.features.provenance.edit_text import broken_line, edit_line
from pytest_crucible.features.provenance.verify import Verification, verify_run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore

FEWEST_DIGITS = 8
"""Of a root that is compared: as many as reports may shorten it to."""


@click.command("verify")
@run_argument
@click.option("--root", default="", metavar="HASH", help="The root that a report of the run shows, or its beginning.")
@store_option
@json_option
def verify(run: str, root: str, store: str, as_json: bool) -> int:
    """Check that the rows of RUN are as they were written: no row was changed, added or removed.

    Exits 1 and names the first row that is not. Rows that were removed with their seals are only seen with --root.
    """
    root = _check_root(root)
    with existing_store(store, reader="crucible verify") as opened:
        run = opened.find_run(run)
        result = verify_run(opened, run)
        if result is None:
            raise SpecError(_without_seals(opened, run))
        lines = list(_problems(opened, result, root))
    is_intact = not lines
    document = {
        "run": run,
        "intact": is_intact,
        "rows": result.rows,
        "commits": result.commits,
        "processes": result.processes,
        "root": result.root,
        "problems": lines,
    }
    print_result([f"run {run}: {line}" for line in lines or [_intact_line(result)]], document, as_json=as_json)
    return int(not is_intact)


def _check_root(root: str) -> str:
    """Return a root in small letters. Raises SpecError for one that is not a hash."""
    digits = root.strip().lower().removesuffix("...")
    if root and (len(digits) < FEWEST_DIGITS or not set(digits) <= set(string.hexdigits)):
        raise SpecError(
            f"--root={root}: expected at least {FEWEST_DIGITS} hexadecimal digits, for example 5be0c2d97f41: "
            "copy the root from a report of the run"
        )
    return digits


def _without_seals(store: RunStore, run: str) -> str:
    stored_in = store.run(run)["format"]
    if stored_in is not None and stored_in < SEALED_SINCE:
        return f"run {run} was stored in format {stored_in}, without seals: it cannot be verified"
    return (
        f"run {run} has no seals: it cannot be verified; either it was recorded without the feature provenance, "
        "or its seals were removed"
    )


def _problems(store: RunStore, result: Verification, root: str) -> Iterator[str]:
    """Yield what is not as it was written, the first row first."""
    # A missing seal comes first: its rows are in no seal any more.
    lines = [broken_line(seal) for seal in result.broken if seal.is_missing]
    if result.edits:
        with store.connect() as connection:
            lines.append(edit_line(connection, result.edits[0]))
    lines += [broken_line(seal) for seal in result.broken if not seal.is_missing]
    yield from lines
    if len(result.edits) > 1:
        yield f"{quantity(len(result.edits) - 1, 'more row')} not as written"
    if not result.root.startswith(root):
        yield (
            f"its root is {result.root}, not {root}: the run was changed after that report, or the report itself, "
            "or it is one of another run"
        )


def _intact_line(result: Verification) -> str:
    processes = "1 process" if result.processes == 1 else f"{result.processes:,} processes"
    rows, commits = quantity(result.rows, "row"), quantity(result.commits, "commit")
    return f"{rows} in {commits} of {processes}, as they were written; root {result.root}"
