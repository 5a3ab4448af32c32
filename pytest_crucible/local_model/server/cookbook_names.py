"""Names of models and data sets that the installed tinker-cookbook uses, read from its source without importing it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

# tml-renderers tokenizes these models, with vocabularies of its own: no tokenizer of a cache replaces them.
_OTHER_TOKENIZERS = ("thinkingmachines/", "moonshotai/Kimi-K3")


@dataclass(frozen=True, slots=True)
class CookbookNames:
    """Names in a version of tinker-cookbook."""

    version: str
    models: tuple[str, ...]
    data_sets: tuple[str, ...]


def find_cookbook() -> Path:
    """Return the folder of the installed tinker-cookbook. Raises SpecError without one."""
    specification = importlib.util.find_spec("tinker_cookbook")
    if specification is None or not specification.submodule_search_locations:
        raise SpecError(
            "--prepare all reads the names of models in tinker-cookbook, which is not installed: "
            "pip install tinker-cookbook, or give --prepare a directory and name the models with --as"
        )
    return Path(specification.submodule_search_locations[0])


def read_cookbook_names() -> CookbookNames:
    """Return the names in the installed tinker-cookbook. Raises SpecError without one, or without a table of models."""
    folder, version = find_cookbook(), metadata.version("tinker-cookbook")
    table = folder / "model_info.py"
    models = sorted(_read_models(table.read_text(encoding="utf-8"))) if table.is_file() else []
    if not models:
        raise SpecError(
            f"--prepare all: {table} of tinker-cookbook {version} has no table of models that can be read; "
            "give --prepare a directory and name the models with --as"
        )
    sources = (file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    data_sets = sorted({name for source in sources for name in _read_data_sets(source)})
    return CookbookNames(version, tuple(models), tuple(data_sets))


def _read_models(source: str) -> Iterator[str]:
    """Yield the names of functions that begin with `org = "ORGANISATION"` and return a dictionary by model."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        match function.body:
            case [*_, ast.Assign([ast.Name("org")], ast.Constant(str(owner))), ast.Return(ast.Dict(keys))]:
                names = [f"{owner}/{ast.literal_eval(key)}" for key in keys if isinstance(key, ast.Constant)]
                yield from (name for name in names if not name.startswith(_OTHER_TOKENIZERS))


def _read_data_sets(source: str) -> Iterator[str]:
    """Yield the names of data sets that a module loads by their names, or by constants of the module."""
    # Parsing is slow, and few modules load any.
    if "load_dataset(" not in source:
        return
    module = ast.parse(source)
    constants = dict(_read_constants(module))
    for call in ast.walk(module):
        match call:
            case ast.Call(ast.Name("load_dataset") | ast.Attribute(attr="load_dataset"), [first, *_]):
                match first:
                    case ast.Constant(str(name)):
                        yield name
                    case ast.Name(variable) if variable in constants:
                        yield constants[variable]


def _read_constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield names and values of a module's texts."""
    for statement in module.body:
        match statement:
            case ast.Assign([ast.Name(name)], ast.Constant(str(value))):
                yield name, value
