"""Files of a model: found locally or on the hub, checked before anything of them is loaded, and identified by their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError

# Weights, configuration and tokenizer. Only safetensors, because other weight formats can run code.
PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*/*.json", "*/*.safetensors")


def find_directory(model: str, revision: str | None, root: Path, *, extra: str) -> Path:
    """Return the directory of a model: a path relative to `root`, or a name on the Hugging Face hub, downloaded once.

    Raises SpecError if it is neither.
    """
    path = root / Path(model).expanduser()
    if path.is_dir():
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise missing_extra(f"model {model!r}, which is not a directory here,", extra) from error
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(PATTERNS)))
    # The hub raises a different class for network, cache and name errors.
    except Exception as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise SpecError(
            f"model {model!r} is not a directory below {root}, and not available from the Hugging Face hub "
            f"({message[0]:.160}): "
            "write the path of a directory with config.json and model.safetensors"
        ) from error


def digest(directory: Path) -> str:
    """Return a SHA-256 over all files that determine the model's output.

    Raises SpecError if there are no weights, or if loading the model could run code that its files name.
    """
    check_model_files(directory)
    files = sorted({path for pattern in PATTERNS for path in directory.glob(pattern)})
    if not any(path.suffix == ".safetensors" for path in files):
        raise SpecError(f"model directory {directory} has no *.safetensors: save the model with safetensors")
    combined = hashlib.sha256()
    # Names and contents: a renamed file can change which one transformers loads.
    for path in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        combined.update(f"{path.relative_to(directory)} {content}\n".encode())
    return combined.hexdigest()


def missing_extra(what: str, extra: str) -> SpecError:
    return SpecError(f'{what} needs further packages: pip install "pytest-crucible[{extra}]"')


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
