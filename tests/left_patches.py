"""Finds what a session in this process has replaced in our modules and not put back: every later session would run with it."""

from __future__ import annotations

import operator
import sys
from types import FunctionType, ModuleType
from typing import Any

Names = list[tuple[ModuleType, dict[str, Any]]]


def module_names() -> Names:
    """Return all names of our loaded modules, with what they mean now."""
    return [
        (module, vars(module).copy())
        for name, module in list(sys.modules.items())
        if name.startswith("pytest_crucible.")
    ]


def left_patches(before: Names) -> list[str]:
    """Return the functions, classes and constants whose names mean something else than before. Caches may have changed."""
    return [
        f"{module.__name__}.{name}"
        for module, names in before
        # All names at once: one by one they take ten times as long, and each session in this process is looked at.
        if not all(map(operator.is_, names.values(), vars(module).values()))
        for name, meant in names.items()
        if (name.isupper() or isinstance(meant, (FunctionType, type))) and vars(module).get(name) is not meant
    ]
