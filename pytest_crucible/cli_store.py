"""The run store that a command of the `crucible` program looks into."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pytest_crucible.errors import SpecError
from pytest_crucible.store.runs import RunStore

DEFAULT_STORE = ".crucible/crucible.db"


def add_run_and_store(parser: argparse.ArgumentParser) -> None:
    """Enter RUN and --store."""
    parser.add_argument("run", nargs="?", default="", help="id of the run, or its beginning (default: the latest run)")
    parser.add_argument(
        "--store",
        default=os.environ.get("CRUCIBLE_STORE", DEFAULT_STORE),
        metavar="WHERE",
        help=f"run store: a path or a database URL (default: CRUCIBLE_STORE, or {DEFAULT_STORE})",
    )


def existing_store(where: str) -> RunStore:
    """Opening a path that does not exist would make an empty store. Raises SpecError."""
    if "://" not in where and not Path(where).is_file():
        raise SpecError(f"there is no run store at {where!r}: run a suite first, or name another one with --store")
    return RunStore(where)
