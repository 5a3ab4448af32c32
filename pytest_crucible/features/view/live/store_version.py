"""Detects commits to a run store, for next to nothing."""

from __future__ import annotations

import os
import time
from typing import Any

from pytest_crucible.store.runs import RunStore

_TICK_S = 0.05
"""Seconds, more than a tick of a file system's clock: a file that is changed twice within one has the same time."""


def store_version(store: RunStore) -> Any:
    """Return a value that differs after each commit. Raises StoreError."""
    if store.database.is_sqlite:
        # Without a connection: the last writer merges its log into the file only if no other is open.
        return _file_version(store.database.path), _file_version(f"{store.database.path}-wal")
    # The transactions that are visible now.
    return store.scalar("SELECT CAST(pg_current_snapshot() AS TEXT)")


def _file_version(path: str) -> Any:
    try:
        status = os.stat(path)
    except OSError as error:
        return error.errno
    if abs(time.time() - status.st_mtime) < _TICK_S:
        # It may be changed once more at the same time.
        return object()
    return status.st_ino, status.st_size, status.st_mtime_ns
