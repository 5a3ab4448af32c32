"""Opens the run store of a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


@contextlib.contextmanager
def existing_store(where: str) -> Iterator[RunStore]:
    """Open an existing run store; opening a missing path would create an empty one. Raises SpecError."""
    # A database URL cannot be checked without connecting; opening it reports the error.
    if "://" not in where and not Path(where).is_file():
        raise SpecError(_missing(Path(where)))
    store = RunStore(where)
    try:
        yield store
    finally:
        store.close()


def _missing(where: Path) -> str:
    """Return where the store was looked for, and the one in a parent folder, where pytest's root directory may be."""
    here = Path.cwd()
    problem = f"no run store at {str(where)!r}" + ("" if where.is_absolute() else f" in {str(here)!r}")
    above = next((folder / where for folder in here.parents if (folder / where).is_file()), None)
    if above is None or where.is_absolute():
        return f"{problem}: run a suite first, or name another store"
    return f"{problem}, but one at {str(above)!r}: go there, or name that one"
