"""The rows that seals cover, by the run, dataset or variant that they belong to, and one hash over all of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pytest_crucible.features.provenance.canonical_rows import row_hashes
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.table import Table


class Owner(NamedTuple):
    """A run, or a dataset or variant that several runs share."""

    kind: str
    """The table that has it: runs, samples or twins."""
    key: str


class OwnerColumn(NamedTuple):
    """The column by which the owner of a table's rows is found."""

    kind: str
    column: str
    parent: str = ""
    """The table, experiments or arms, of which it has the id; empty where it has the owner itself."""


_OWN: Mapping[Table, OwnerColumn] = {
    schema.runs: OwnerColumn("runs", "id"),
    schema.experiments: OwnerColumn("runs", "run"),
    schema.events: OwnerColumn("runs", "run"),
    schema.decisions: OwnerColumn("runs", "run"),
    PARTS: OwnerColumn("runs", "run"),
    schema.samples: OwnerColumn("samples", "dataset"),
    schema.twins: OwnerColumn("twins", "variant"),
}


@cache
def owner_column(table: Table) -> OwnerColumn | None:
    """Return where the owner of a table's rows stands; None for a table that no seal covers, such as tags and the reply cache."""
    if table in _OWN:
        return _OWN[table]
    columns = (column for column in table.columns if column.references in ("experiments", "arms"))
    return next((OwnerColumn("runs", column.name, column.references) for column in columns), None)


def sealed_tables(connection: Connection) -> list[Table]:
    """Return the tables whose rows seals cover."""
    present = connection.tables()
    return [table for table in schema.all_tables().values() if owner_column(table) and table.name in present]


_RUN_OF_EXPERIMENT = "SELECT run FROM experiments WHERE id = :key"
_RUN_OF_ARM = "SELECT run FROM experiments WHERE id = (SELECT experiment FROM arms WHERE id = :key)"


def find_owner(connection: Connection, place: OwnerColumn, value: Any) -> Owner | None:
    """Return the owner of rows with this value in their column; None for rows of an arm or experiment that is not there."""
    if not place.parent:
        return Owner(place.kind, value)
    run = connection.scalar(_RUN_OF_ARM if place.parent == "arms" else _RUN_OF_EXPERIMENT, key=value)
    return None if run is None else Owner(place.kind, run)


EXPERIMENTS = "SELECT id FROM experiments WHERE run = :run"
ARMS = f"SELECT id FROM arms WHERE experiment IN ({EXPERIMENTS})"


def run_owners(connection: Connection, run: str) -> list[Owner]:
    """Return a run, and the datasets and variants that it uses."""
    plans = connection.scalars("SELECT plan FROM experiments WHERE run = :run", run=run)
    variants = connection.scalars(f"SELECT sha256 FROM variants WHERE experiment IN ({EXPERIMENTS})", run=run)
    return [
        Owner("runs", run),
        *(Owner("samples", key) for key in sorted({*map(dataset_of, plans)}) if key),
        *(Owner("twins", key) for key in sorted({str(key) for key in variants if key})),
    ]


def dataset_of(plan: Any) -> str:
    """Return the hash of the samples in a stored plan; empty for a plan that was changed beyond that."""
    try:
        return str(from_json(plan)["dataset_sha256"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def rows_of_run(
    connection: Connection, table: Table, owners: Sequence[Owner], part: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows that owners have in a table with all its columns, a part at a time."""
    place = owner_column(table)
    assert place is not None
    # A stream has no lists of values.
    keys = {f"key_{k}": owner.key for k, owner in enumerate(owners) if owner.kind == place.kind}
    where = f"{place.column} IN ({', '.join(f':{name}' for name in keys) or 'NULL'})"
    if place.parent:
        keys = {"run": owners[0].key}
        where = f"{place.column} IN ({ARMS if place.parent == 'arms' else EXPERIMENTS})"
    with connection.stream(f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {where}", **keys) as cursor:
        while rows := cursor.fetchmany(part):
            yield rows


_COVERED = (schema.runs, schema.experiments, schema.verdicts)
"""Tables whose rows are hashed as they are now, beside the seals: a root shows a changed verdict by itself."""


def run_root(connection: Connection, run: str) -> str:
    """Return the root of a run in hexadecimal digits; empty for a run without seals."""
    owners, ends, rows = run_owners(connection, run), list[list[object]](), list[str]()
    query = """
        SELECT id, (SELECT MAX(number) FROM seals WHERE chain = id),
            (SELECT sha256 FROM seals WHERE chain = id ORDER BY number DESC LIMIT 1)
        FROM seal_chains WHERE kind = :kind AND owner = :key
    """
    for owner in owners:
        for chain, number, sha256 in connection.execute(query, **owner._asdict()).fetchall():
            ends.append([*owner, chain, number, sha256.hex() if sha256 else ""])
    for table in _COVERED:
        for part in rows_of_run(connection, table, owners, 1_000):
            columns = dict(zip(table.names, zip(*part, strict=True), strict=True))
            rows += [hash.hex() for hash in row_hashes(table, columns, len(part))]
    content = json.dumps([sorted(ends, key=str), sorted(rows)])
    return hashlib.sha256(content.encode()).hexdigest() if ends else ""
