"""`crucible verify`: whether the rows of a run are as they were written, and which were changed, added or removed."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.features.provenance.canonical_rows import SEALED_SINCE
from pytest_crucible.features.provenance.run_rows import dataset_of, owner_column
from pytest_crucible.features.provenance.sealed_rows import BrokenSeal, EditedRow
from pytest_crucible.features.provenance.verify import Verification, verify_run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Table

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


_EDITS = {
    "changed": "was changed after it was written",
    "added": "was added: no seal has it",
    "removed": "was removed",
}
_BODIES = {"texts": "a text of ", "messages": "the messages of "}


def edit_line(connection: Connection, edit: EditedRow) -> str:
    """Return `replies: test_a.py::test_facts, arm v2, sample q17, repeat 0 was changed after it was written`."""
    body, (of, *key) = _BODIES.get(edit.table, ""), edit.key if edit.table in _BODIES else (edit.table, *edit.key)
    table = schema.all_tables()[of]
    place = ", ".join(map(_printable, _place(connection, table, dict(zip(table.key, key, strict=True)))))
    return f"{edit.table}: {body}{place} {_EDITS[edit.edit]}"


def _printable(word: str) -> str:
    return printable_cell(word, AN_ID)


def broken_line(seal: BrokenSeal) -> str:
    """Return the line of a seal that is missing or does not match its rows."""
    return f"seals: chain {seal.chain}, number {seal.number} {'was removed' if seal.is_missing else 'does not match its rows'}"


def _place(connection: Connection, table: Table, key: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words that name a row."""
    if table is schema.runs:
        yield "its own row"
        return
    stored = f"SELECT * FROM {table.name} WHERE {' AND '.join(f'{name} = :{name}' for name in key)}"
    row = {**key, **next(connection.named_rows(stored, **key), {})}
    place = owner_column(table)
    if place is not None and place.parent == "arms":
        yield from _of_arm(connection, row)
    elif place is not None and place.parent:
        yield from connection.scalars(
            "SELECT nodeid FROM experiments WHERE id = :experiment", experiment=row.get("experiment")
        )
    yield from (f"{word}{row[name]}" for name, word in _NAMED.get(table.name, {}).items() if row.get(name))
    words = {"epoch": "repeat", "subject": table.name.removesuffix("s")}
    named = ("arm", "position") if place is not None and place.parent == "arms" else ("experiment", "run", "dataset")
    yield from (f"{words.get(name, name)} {value}" for name, value in key.items() if name not in named and value != "")


_NAMED: Mapping[str, Mapping[str, str]] = {
    "events": {"experiment": "", "arm": "arm ", "sample": "sample ", "name": ""},
    "experiments": {"nodeid": ""},
    "arms": {"name": "arm "},
    "samples": {"sample_id": "sample "},
    "parts": {"path": ""},
}
"""Columns with the name of a row that is still there, each with the word before it."""


def _of_arm(connection: Connection, row: Mapping[str, Any]) -> Iterator[str]:
    query = """
        SELECT experiments.nodeid, arms.name, arms.variant, experiments.plan
        FROM arms JOIN experiments ON experiments.id = arms.experiment WHERE arms.id = :arm
    """
    of_arm = connection.first(query, arm=row["arm"])
    if of_arm is None:
        yield f"arm {row['arm']}"
        return
    nodeid, name, variant, plan = of_arm
    sample = "SELECT sample_id FROM samples WHERE dataset = :dataset AND position = :position"
    sample_id = connection.scalar(sample, dataset=dataset_of(plan), position=row["position"])
    yield from (nodeid, f"arm {name}", f"sample {row['position'] if sample_id is None else sample_id}")
    if variant is not None:
        yield f"variant {variant}"
