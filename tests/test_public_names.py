"""The names that users import: the same in every list, and all of them there."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_crucible
from pytest_crucible import stats


def typed_names(package) -> Iterator[str]:
    """Yield the names for a type checker: of a stub, or the imports under `if TYPE_CHECKING`."""
    stub = Path(package.__file__).with_suffix(".pyi")
    if stub.exists():
        tree = ast.parse(stub.read_text(encoding="utf-8"))
        yield from (
            alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
        )
        return
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in ast.walk(block):
                if isinstance(node, ast.ImportFrom):
                    yield from (alias.asname or alias.name for alias in node.names)


def test_the_public_names_are_sorted():
    assert pytest_crucible.__all__ == sorted(pytest_crucible.__all__)


def test_each_public_name_has_a_home():
    assert list(pytest_crucible._HOME) == pytest_crucible.__all__


def test_a_type_checker_sees_the_same_names():
    assert sorted(typed_names(pytest_crucible)) == pytest_crucible.__all__


def test_dir_lists_the_public_names():
    assert dir(pytest_crucible) == pytest_crucible.__all__


@pytest.mark.parametrize("name", pytest_crucible.__all__)
def test_a_public_name_is_what_its_home_has(name):
    home = importlib.import_module(f"pytest_crucible.{pytest_crucible._HOME[name]}")

    assert getattr(pytest_crucible, name) in (home, getattr(home, name, None))


def test_a_star_import_takes_the_public_names():
    namespace: dict[str, object] = {}
    exec("from pytest_crucible import *", namespace)

    assert set(namespace) - {"__builtins__"} == set(pytest_crucible.__all__)


@pytest.mark.parametrize("package", [pytest_crucible, stats], ids=lambda package: package.__name__)
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError) as caught:
        _ = package.nothing_of_the_kind

    assert "nothing_of_the_kind" in str(caught.value)
    assert package.__name__ in str(caught.value)


def test_the_names_of_stats_are_sorted_typed_and_there():
    assert dir(stats) == sorted(typed_names(stats))
    assert all(getattr(stats, name) is not None for name in dir(stats))


@pytest.mark.parametrize("name", ["backends", "datasets", "metrics"])
def test_the_names_of_a_library_are_sorted_and_there(name):
    library = importlib.import_module(f"pytest_crucible.{name}")

    assert library.__all__ == sorted(library.__all__)
    assert all(hasattr(library, entry) for entry in library.__all__)


def test_no_metric_is_hidden_by_a_module_of_its_name():
    """Importing a module sets an attribute of its package."""
    library = importlib.import_module("pytest_crucible.metrics")
    modules = {path.stem for path in Path(library.__path__[0]).iterdir()}

    assert not modules & set(library.__all__)


def test_no_public_name_looks_like_a_test():
    """pytest would collect it from every module that imports it."""
    names = [*pytest_crucible.__all__, *dir(stats)]

    assert not [name for name in names if name.lower().startswith("test")]
