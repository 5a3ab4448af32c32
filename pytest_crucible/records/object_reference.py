"""Objects named by a string, which is imported when the object is needed."""

from __future__ import annotations

import importlib
from typing import Any


def load_object(reference: Any) -> Any:
    """Return the object of a "module:attribute" string, the module of a "module" string, and anything else as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
