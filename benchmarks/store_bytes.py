"""Bytes that one sample takes in the run store, how much of that the record of its call adds, and what a rerun adds.

A suite that calls its model once a sample, as most do. The record is the sample's row in `calls`, the messages, and the runs that
paid for cached replies. The rerun reads replies of 1,000 characters from the cache, which its rows share.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from pytest_crucible.store.runs import RunStore

SAMPLES = 5_000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "suite"
        Suite(directory=place, samples=SAMPLES).write().run("--crucible-adapter=v2", "--crucible-store=runs.db")
        store = RunStore(str(place / "runs.db"))
        try:
            whole = _size(store)
            for table in ("calls", "messages", "variants", "repeats"):
                store.execute(f"DELETE FROM {table}")
            store.execute("UPDATE reply_cache SET run = NULL")
            bare = _size(store)
        finally:
            store.close()
    return [
        Figure(name="run store: bytes a sample", measured=whole / SAMPLES, unit="B"),
        Figure(name="- added by the record of its call", measured=(whole / bare - 1) * 100, unit="%", limit=15),
        Figure(name="- added by a rerun, of long replies", measured=_rerun_bytes(), unit="B", limit=300),
    ]


def _rerun_bytes() -> float:
    """Return the bytes a sample that a second run of the same requests adds."""
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory) / "suite", samples=SAMPLES, is_cached=True, padding=1_000).write()
        sizes = []
        for _ in range(2):
            suite.run("--crucible-adapter=v2", "--crucible-fresh", "--crucible-store=runs.db")
            store = RunStore(str(suite.directory / "runs.db"))
            sizes.append(_size(store))
            store.close()
    return (sizes[1] - sizes[0]) / SAMPLES


def _size(store: RunStore) -> int:
    """Bytes of the compacted database."""
    store.execute("VACUUM")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(store.location).stat().st_size


if __name__ == "__main__":
    raise SystemExit(show(figures()))
