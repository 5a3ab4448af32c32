"""Rules of an ensemble by name: from a table, or a user's own function as "module:function"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_function
from pytest_crucible.records.suggestions import suggest


def check_name(adapter_name: str, setting: str, name: Any, names: Iterable[str]) -> None:
    """Raise SpecError, with the nearest name, unless a name is in the table or an importable function."""
    if isinstance(name, str) and ":" in name:
        find_function(adapter_name, setting, name)
    elif name not in tuple(names):
        expected = f"expected {', '.join(map(repr, names))}, or 'module:function' for a function of your own"
        raise SpecError(f"{adapter_name} has {setting} = {name!r}: {suggest(str(name), names, always=expected)}")


def find_function(adapter_name: str, setting: str, name: str) -> Callable[..., Any]:
    """Import the function that "module:function" names. Raises SpecError."""
    return import_function(f"{adapter_name} has {setting} =", name)
