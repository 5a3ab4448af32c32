"""Files of a model: found locally or on the hub, and identified by their content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_crucible.metrics.models.safe_files import check_model_files
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
