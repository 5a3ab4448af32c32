"""The imports of a commit's process: what lies in today's working tree is taken from the worktree.

Loaded by `child` by its path: only Python's own library is imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


class Redirect(importlib.abc.MetaPathFinder):
    """Finds modules of other trees, such as those of an editable installation, at their place in the worktree."""

    def __init__(self, trees: Sequence[str], worktree: str, installed: Sequence[str]) -> None:
        """`trees` are today's working tree, and a worktree in which the environment was built."""
        self._trees, self._worktree, self._installed = trees, worktree, installed

    def place_of(self, path: str | None) -> str | None:
        """Return the place of a path of another tree in the worktree; None for any other path."""
        if not path or not os.path.isabs(path):
            return None
        real = os.path.realpath(path)
        is_installed = any(_is_below(real, folder) for folder in self._installed) or "site-packages" in real
        tree = next((tree for tree in self._trees if _is_below(real, tree)), None)
        if is_installed or tree is None or _is_below(real, self._worktree):
            return None
        return os.path.join(self._worktree, os.path.relpath(real, tree))

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a module that only other trees have."""
        for finder in sys.meta_path:
            spec = None if finder is self or not hasattr(finder, "find_spec") else finder.find_spec(name, path, target)
            if spec is not None:
                return self._move(name, spec)
        return None

    def _move(self, name: str, spec: ModuleSpec) -> ModuleSpec:
        folders = list(spec.submodule_search_locations or ())
        moved = [self.place_of(folder) for folder in ([spec.origin] if spec.has_location else folders)]
        if not any(moved):
            return spec
        # A package's own file lies one level below the folder that is searched.
        levels = 2 if spec.has_location and folders else 1
        parents = [str(Path(place).parents[levels - 1]) for place in moved if place]
        other = importlib.machinery.PathFinder.find_spec(name, parents)
        if other is None:
            raise ModuleNotFoundError(f"No module named {name!r} (it is not in this commit)", name=name)
        return other


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def redirect_imports(trees: Sequence[str], worktree: str, folders: Sequence[str]) -> None:
    """Import what lies in other trees from the worktree; `folders` of it come first."""
    trees = [os.path.realpath(tree) for tree in trees]
    # An environment within a tree is no part of it. One around it, such as `/usr`, says nothing of its files.
    prefixes = [os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    installed = [prefix for prefix in prefixes if any(_is_below(prefix, tree) for tree in trees)]
    redirect = Redirect(trees, os.path.realpath(worktree), installed)
    own = os.path.dirname(os.path.abspath(__file__))
    paths = [redirect.place_of(path) or path for path in sys.path if os.path.abspath(path) != own]
    sys.path[:] = list(dict.fromkeys([*folders, *paths]))
    # For programs that the suite starts. Not before: a module of the suite may have the name of one of Python's.
    todays = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *(redirect.place_of(path) or path for path in todays)])
    sys.meta_path.insert(0, redirect)
