"""Bytes that one sample takes in the run store, and how much of that the record of its call adds.

A suite that calls its model once a sample, as most do. The record is the sample's row in `calls`, the messages, and the runs that
paid for cached replies.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlalchemy import update

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore

SAMPLES = 5_000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "suite"
        Suite(directory=place, samples=SAMPLES).write().run("--crucible-adapter=v2", "--crucible-store=runs.db")
        store = RunStore(str(place / "runs.db"))
        try:
            whole = _size(store)
            with store.engine.begin() as connection:
                for table in (schema.calls, schema.messages, schema.variants, schema.repeats):
                    connection.execute(table.delete())
                connection.execute(update(schema.reply_cache).values(run=None))
            bare = _size(store)
        finally:
            store.close()
    return [
        Figure(name="run store: bytes a sample", measured=whole / SAMPLES, unit="B"),
        Figure(name="- added by the record of its call", measured=(whole / bare - 1) * 100, unit="%", limit=15),
    ]


def _size(store: RunStore) -> int:
    """Bytes of the compacted database."""
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(store.location).stat().st_size


if __name__ == "__main__":
    raise SystemExit(show(figures()))
