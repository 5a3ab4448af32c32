"""Stored runs, without pytest: evaluate, load, compare, import, reproduce, export.

`load` and `query` return the results of stored runs as pandas data frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible.runs.stored_runs import StoredRuns as StoredRuns
    from pytest_crucible.runs.stored_runs import load as load
    from pytest_crucible.runs.stored_runs import query as query

__all__ = ["StoredRuns", "load", "query"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported on first use: it opens run stores, which takes a database library.
    from pytest_crucible.runs import stored_runs

    return getattr(stored_runs, name)


def __dir__() -> list[str]:
    return __all__
