"""This package's modules load as any others do, from Python's own bytecode.

pytest rewrites the assert statements of every plugin, into a cache of its own. That is not there in a first run, in a directory
that cannot be written, or where PYTHONDONTWRITEBYTECODE is set: there, a session would compile 270 modules anew.
https://docs.pytest.org/en/stable/how-to/writing_plugins.html#assertion-rewriting
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class OrdinaryFinder(MetaPathFinder):
    """Finds this package's modules before pytest does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_crucible.") else None


def install() -> None:
    """Put a finder before all that are there."""
    sys.meta_path.insert(0, OrdinaryFinder())
