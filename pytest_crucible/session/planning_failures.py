"""Exceptions of a suite's own code while its experiments are planned, such as a dataset function that raises.

They fail the experiments that need this code, as an error in a fixture would; other tests run.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import OutcomeException

_PACKAGE = Path(__file__).parents[1]


class PlanningFailures:
    """The failures by the nodeid of their experiment; one that concerns all experiments has no nodeid."""

    def __init__(self) -> None:
        self._failures: dict[str, BaseException] = {}

    def add(self, where: str, error: BaseException) -> None:
        """Keep the first failure of an experiment, or of all: `where` is then empty."""
        outcome = error if isinstance(error, OutcomeException) else None
        self._failures.setdefault(where, outcome or pytest.fail.Exception(describe(error), pytrace=False))

    def raise_for(self, nodeid: str) -> None:
        """Raise the failure of an experiment, if there is one."""
        failure = self._failures.get(nodeid) or self._failures.get("")
        if failure is not None:
            raise failure

    def names(self) -> list[str]:
        """Return the nodeids of the experiments that failed."""
        return [name for name in self._failures if name]

    def sentences(self) -> list[str]:
        """Return all failures, for a session that runs no test."""
        return [f"{where}: {error}" if where else str(error) for where, error in self._failures.items()]


def describe(error: BaseException) -> str:
    """Return one sentence with the exception, and the file and line where it was raised."""
    exception = " ".join(traceback.format_exception_only(error)[-1].split())
    place = _place(error)
    return f"the experiment cannot be planned: {exception}" + (f" ({place[0]}, line {place[1]})" if place else "")


def _place(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost line outside of this package and of installed ones."""
    # A module that cannot be compiled has no frame of its own.
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).name, error.lineno or 1
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(Path(frame.filename))] or frames[-1:]
    return (Path(own[-1].filename).name, own[-1].lineno) if own else None


def _is_own(path: Path) -> bool:
    is_installed = {"site-packages", "importlib"} & set(path.parts) or path.is_relative_to(_PACKAGE)
    return path.is_file() and not is_installed
