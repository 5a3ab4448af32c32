"""Names of a module that are imported on first use, as the stub (.pyi) beside it lists them."""

from __future__ import annotations

import ast
import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a module that imports the names of its stub on first use."""
    # Without pathlib, which takes longer to import than the stub to read.
    with open(f"{file}i", encoding="utf-8") as stub:
        imports = [node for node in ast.parse(stub.read()).body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: "." * node.level + (node.module or "") for node in imports for alias in node.names}
    names = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name], module), name)
        # The module has the name from now on, so that this function is not called for it again.
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: names, names
