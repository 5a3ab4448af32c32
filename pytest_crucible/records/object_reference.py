"""Objects named by a string, which is imported when the object is needed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError, describe_type


def load_object(reference: Any) -> Any:
    """Return the object of a "module:attribute" string, the module of a "module" string, and any other value unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def import_from_here() -> None:
    """Put the working directory on the path of imports, as pytest does: programs of an installed package lack it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def import_function(setting: str, reference: str) -> Callable[..., Any]:
    """Return the user's function that a setting names as "module:function".

    Raises SpecError if it is missing; `setting` begins the sentence, such as "adapter 'v2' has script". What the module
    itself raises passes: it is an error in the suite's code, reported with its line.
    """
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(
            f"{setting} {reference!r}, which cannot be imported ({error}): write 'module:function' of a module on the path"
        ) from error
    if not callable(function):
        raise SpecError(f"{setting} {reference!r}, which is {describe_type(function)}: name a function")
    result: Callable[..., Any] = function
    return result
