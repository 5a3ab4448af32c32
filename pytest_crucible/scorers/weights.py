"""Where a model's files are, and what they are: the same files are the same scorer, wherever they lie."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_crucible.errors import SpecError

PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*/config.json")
"""Weights, configuration and tokenizer. Weights are safetensors: other files could run code."""


def directory_of(model: str, revision: str | None, root: Path, *, extra: str) -> Path:
    """The directory of a model: a path, from `root`, or the name of one on the Hugging Face hub, which is fetched once.

    Raises SpecError for what is neither.
    """
    path = root / Path(model).expanduser()
    if path.is_dir():
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise needs_extra(f"model {model!r}, which is no directory here,", extra) from error
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(PATTERNS)))
    except Exception as error:  # of the network, of the cache, or of the name: a class each
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise SpecError(
            f"model {model!r} is no directory below {root}, and the Hugging Face hub does not give it ({said[0]:.160}): "
            "write the path of a directory with config.json and model.safetensors"
        ) from error


def digest(directory: Path) -> str:
    """SHA-256 over names and contents of all files that decide what the model says. Raises SpecError where there are no weights."""
    files = sorted({path for pattern in PATTERNS for path in directory.glob(pattern)})
    if not any(path.suffix == ".safetensors" for path in files):
        raise SpecError(f"model directory {directory} has no *.safetensors: save the model with safetensors")
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(directory)} {content}\n".encode())
    return whole.hexdigest()


def needs_extra(what: str, extra: str) -> SpecError:
    return SpecError(f'{what} needs further packages: pip install "pytest-crucible[{extra}]"')
