"""Names the rows that were changed, added or removed, as their suite knows them: experiment, arm, sample, repeat, metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.features.provenance.run_rows import dataset_of, owner_column
from pytest_crucible.features.provenance.sealed_rows import BrokenSeal, EditedRow
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.table import Table

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
