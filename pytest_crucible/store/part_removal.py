"""Removes the parts of removed runs, and files that no manifest has: of processes that were killed before they entered them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pytest_crucible.store.database import Connection
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.part_reader import load_parts
from pytest_crucible.store.parts import Part, ResultsFolder
from pytest_crucible.store.runs import RunStore

ORPHAN_S = 3600.0
"""Seconds after which a file that is not entered belongs to no process that still writes."""


def forget_parts(connection: Connection, run: str) -> list[Part]:
    """Remove the parts of a run from the manifest, and return them: their files go when that is committed."""
    parts = load_parts(connection, frozenset([run]))
    connection.execute(f"DELETE FROM {PARTS.name} WHERE run = :run", run=run)
    return parts


def remove_files(parts: Iterable[Part]) -> int:
    """Remove the files of parts that no manifest has any more; return their bytes. Raises StoreError."""
    freed = 0
    for part in parts:
        ResultsFolder(part.root).remove(part.path)
        freed += part.bytes
    return freed


def remove_unentered(store: RunStore, results: ResultsFolder, run: str) -> None:
    """Remove the files of a run that its manifest does not have, when nothing writes them any more. Raises StoreError."""
    with store.connect() as connection:
        paths = [part.path for part in load_parts(connection, frozenset([run]))]
    results.remove_leftovers(run, paths, math.inf)


def remove_orphans(store: RunStore, removed: Iterable[Part], before: float) -> int:
    """Remove files of the store's runs that are in no manifest and older than `before`; return their bytes.

    Files of other run stores, in the same directory, are left: only folders of this store's runs are looked at.
    """
    with store.connect() as connection:
        entered = load_parts(connection, None)
        runs = {*connection.scalars("SELECT id FROM runs"), *(part.run for part in removed)}
    freed = 0
    for root in {part.root for part in (*entered, *removed)}:
        results = ResultsFolder(root)
        for run in runs:
            names = [part.path for part in entered if part.run == run and part.root == root]
            freed += results.remove_leftovers(run, names, before)
    return freed
