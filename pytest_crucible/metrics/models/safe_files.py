"""Checks a model's directory before anything of it is loaded: no file of it may name code, and weights are safetensors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError

MODULES = "modules.json"
_OURS = re.compile(r"sentence_transformers(\.[A-Za-z_]\w*)+")
# Fields of a module's configuration that are imported and called, and the classes that they may name. Names without a dot are
# those of a library's own table, such as "BertTokenizer" and "gelu".
_IMPORTED = {
    "tokenizer_class": _OURS,
    "activation_function": re.compile(r"torch\.nn(\.[A-Za-z_]\w*)+"),
    "activation_fn": re.compile(r"torch\.nn(\.[A-Za-z_]\w*)+"),
}
# Formats that unpickle, which runs code.
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def check_model_files(directory: Path) -> None:
    """Raise SpecError if loading the model could run code that its files name, or unpickle its weights.

    `trust_remote_code=False` does not do: sentence-transformers 5.0 to 5.4 imports what a local modules.json names all the same.
    """
    for folder in _check_modules(directory):
        for file in sorted(folder.glob("*.json") if folder == directory else folder.rglob("*.json")):
            # Not vocabularies: they are large, and configure nothing.
            if file.name.endswith("config.json"):
                _check_configuration(file, _read(file))
        if not any(folder.glob("*.safetensors")):
            for file in sorted(folder.iterdir() if folder.is_dir() else ()):
                if file.suffix.lower() in _PICKLED:
                    raise SpecError(
                        f"{file} is not safetensors, and reading it can run code: save the model with safetensors"
                    )


def _check_modules(directory: Path) -> Iterator[Path]:
    """Yield the directory and the folders of its modules. Raises SpecError for a type or a folder from elsewhere."""
    yield directory
    file = directory / MODULES
    modules = _read(file) if file.is_file() else []
    if not (isinstance(modules, list) and all(isinstance(module, Mapping) for module in modules)):
        raise SpecError(f"{file} is not a list of modules: save the model again")
    for module in modules:
        _check_class(file, "type", module.get("type"), _OURS)
        folder = directory / str(module.get("path") or "")
        if not folder.resolve().is_relative_to(directory.resolve()):
            raise SpecError(
                f"{file} names the folder {str(folder)!r:.160}, which is outside of it: save the model again"
            )
        if folder != directory:
            yield folder


def _check_configuration(file: Path, document: Any) -> None:
    if isinstance(document, list):
        for entry in document:
            _check_configuration(file, entry)
    for field, value in document.items() if isinstance(document, Mapping) else ():
        if field == "types" and isinstance(value, Mapping):  # of a router
            for name in value.values():
                _check_class(file, field, name, _OURS)
        elif field in _IMPORTED and isinstance(value, str) and "." in value:
            _check_class(file, field, value, _IMPORTED[field])
        _check_configuration(file, value)


def _check_class(file: Path, field: str, value: Any, allowed: re.Pattern[str]) -> None:
    if not (isinstance(value, str) and allowed.fullmatch(value)):
        raise SpecError(
            f"{file} has {field} = {value!r:.160}, and loading it would run that code: use a model whose classes are those of "
            "sentence-transformers and torch.nn"
        )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise SpecError(f"{file} cannot be read as JSON ({error!s:.160}): save the model again") from error
