"""The files that an adapter was trained on: those of its lineage, and those that `trained_on` declares."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_crucible.backends import Backend
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


def find_training_files(adapter: Adapter, backend: Backend, root: Path) -> dict[str, str]:
    """Return SHA-256 -> name of each training file that is known. Raises SpecError for a declared file that is missing."""
    declared = {sha256: name for name, sha256 in hash_declared_files(adapter, root).items()}
    return {**getattr(backend, "trained_on", {}), **declared}


def hash_declared_files(adapter: Adapter, root: Path) -> dict[str, str]:
    """Return name -> SHA-256 of each file that `trained_on` declares. Raises SpecError for a missing one."""
    return {name: _hash_file(adapter, name, root / Path(name).expanduser()) for name in adapter.trained_on}


def _hash_file(adapter: Adapter, name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(
            f"adapter {adapter.name!r} has trained_on = {[name]!r}, and {str(path)!r} cannot be read "
            f"({error.strerror or error}): correct the path, or remove it"
        ) from error
