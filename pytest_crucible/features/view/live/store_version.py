"""Whether anything was committed to a run store, for next to nothing."""

from __future__ import annotations

from typing import Any

from pytest_crucible.store.database import Connection


def store_version(connection: Connection) -> Any:
    """Return a value that differs, on the same connection, after another process or connection has committed."""
    # https://sqlite.org/pragma.html#pragma_data_version. A snapshot names the transactions that are visible to it.
    query = "PRAGMA data_version" if connection.is_sqlite else "SELECT CAST(pg_current_snapshot() AS TEXT)"
    return connection.scalar(query)
