"""Loads this package's modules from Python's own bytecode, instead of pytest's rewritten ones.

pytest rewrites the assert statements of every plugin, into a cache of its own. That cache is missing in a first run, in a
directory that cannot be written, and with PYTHONDONTWRITEBYTECODE: every session would then compile 270 modules.
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


_FINDER = OrdinaryFinder()


def install() -> None:
    """Put the finder before pytest's own, until `uninstall`."""
    uninstall()
    sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Take the finder away. Idempotent."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
