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
        raise SpecError(_missing(Path(where)))
    store = RunStore(where)
    try:
        yield store
    finally:
        store.close()


def _missing(where: Path) -> str:
    """Where it was looked for, and what lies above: pytest keeps a suite's store in its root directory."""
    here = Path.cwd()
    looked = f"there is no run store at {str(where)!r}" + ("" if where.is_absolute() else f" in {str(here)!r}")
    above = next((folder / where for folder in here.parents if (folder / where).is_file()), None)
    if above is None or where.is_absolute():
        return f"{looked}: run a suite first, or name another one with --store"
    return f"{looked}, but one at {str(above)!r}: go there, or name it with --store"
