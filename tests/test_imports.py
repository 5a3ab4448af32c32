"""The imports of code that everyday tests do not run: benchmarks, simulations, figures of the pages and example suites."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("benchmarks", "tests/truth", "docs/_build_help", "example_suites")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each module of the package that is imported from, with the name; also the attributes of our `stats`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {(str(node.module), alias.name) for node in imports for alias in node.names}
    yield from (place for place in names if place[0].startswith("pytest_crucible"))
    if ("pytest_crucible", "stats") in names:
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        yield from (("pytest_crucible.stats", node.attr) for node in attributes if ast.unparse(node.value) == "stats")


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(f"{module}.{name}"))
    except ModuleNotFoundError as error:
        # An extra that is not installed says nothing about the name.
        return not str(error.name).startswith("pytest_crucible")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_rare_code_imports_exists(path):
    names = set(imported_names(ast.parse(path.read_text(encoding="utf-8"))))

    assert not sorted(place for place in names if not exists(*place))
