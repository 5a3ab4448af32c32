"""Stored runs, without pytest: evaluate, load, compare, import, reproduce, export.

`load` and `query` return the results of stored runs as pandas data frames, and `compare_results` compares results in data frames,
files and queries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible.runs.compared_sources import compare_results as compare_results
    from pytest_crucible.runs.stored_runs import StoredRuns as StoredRuns
    from pytest_crucible.runs.stored_runs import load as load
    from pytest_crucible.runs.stored_runs import query as query

_HOME = {
    "StoredRuns": "stored_runs",
    "compare_results": "compared_sources",
    "load": "stored_runs",
    "query": "stored_runs",
}
__all__ = ["StoredRuns", "compare_results", "load", "query"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported on first use: they open run stores, which takes a database library.
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
