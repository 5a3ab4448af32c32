"""A griffe extension for mkdocstrings: hides the statistics that `pytest_crucible.stats` does not export."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Module

from pytest_crucible import stats


class PublicNames(Extension):
    """Removes unexported functions and classes from modules of `stats`; modules without exports stay whole."""

    def on_module_members(self, *, mod: Module, **_kwargs: Any) -> None:
        if not mod.path.startswith(f"{stats.__name__}."):
            return
        here = {name: member for name, member in mod.members.items() if not member.is_alias}
        own = {name for name, member in here.items() if member.is_function or member.is_class}
        if exported := own.intersection(dir(stats)):
            for name in own - exported:
                del mod.members[name]
