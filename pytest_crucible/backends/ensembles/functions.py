"""Rules that an ensemble names: one of a table, or a function of the user's own as "module:function"."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from pytest_crucible.errors import SpecError


def check_name(says: str, setting: str, name: Any, known: Iterable[str]) -> None:
    """Raise SpecError, with the nearest name, for what is neither in the table nor a function that can be imported."""
    if isinstance(name, str) and ":" in name:
        find_function(says, setting, name)
    elif name not in tuple(known):
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SpecError(
            f"{says} has {setting} = {name!r}: {hint}known are {', '.join(map(repr, known))}, "
            "or write 'module:function' for one of your own"
        )


def find_function(says: str, setting: str, name: str) -> Callable[..., Any]:
    """The function that "module:function" names. Raises SpecError."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(
            f"{says} has {setting} = {name!r}, which cannot be imported ({error}): "
            "write 'module:function' of a module on the path"
        ) from error
    if not callable(function):
        raise SpecError(f"{says} has {setting} = {name!r}, which is a {type(function).__name__} and no function")
    found: Callable[..., Any] = function
    return found
