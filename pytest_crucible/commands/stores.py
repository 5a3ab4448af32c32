"""The run store that a command looks into."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pytest_crucible.errors import SpecError
from pytest_crucible.store.runs import RunStore


@contextlib.contextmanager
def existing_store(where: str) -> Iterator[RunStore]:
    """A run store that is there: opening a path that does not exist would make an empty one. Raises SpecError."""
    if "://" not in where and not Path(where).is_file():
        raise SpecError(f"there is no run store at {where!r}: run a suite first, or name another one with --store")
    store = RunStore(where)
    try:
        yield store
    finally:
        store.close()
