"""Copies weights into the registry's folder, each under its SHA-256, and checks that they are still the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_crucible.adapters.versions import changed_weights, weights_path
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.local_model.lineages import write_lineage
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.registry import StoredWeights, Version
from pytest_crucible.training.files import hash_file


def keep_weights(weights: Weights, folder: Path) -> Mapping[str, StoredWeights]:
    """Copy the files of an adapter, with their lineage, and return where they are. Raises SpecError."""
    return {option: _keep_file(path, weights, folder) for option, path in weights.files.items()}


def check_weights(version: Version, folder: Path) -> None:
    """Raise SpecError for copied weights that were changed or are missing."""
    for stored in version.weights.values():
        path = weights_path(folder, stored)
        if not path.is_file():
            raise SpecError(f"weights of {version.name} are missing: {path} does not exist: restore it from a backup")
        if hash_file(path) != stored.sha256:
            raise changed_weights(version.name)


def _keep_file(path: Path, weights: Weights, folder: Path) -> StoredWeights:
    try:
        return _copy(path, weights, folder)
    except OSError as error:
        raise SpecError(f"{path} cannot be copied into {str(folder)!r}: {error}") from error


def _copy(path: Path, weights: Weights, folder: Path) -> StoredWeights:
    """Copy into a draft, then rename it: a folder appears whole or not at all, also where two processes register at once."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".copying-", dir=folder))
    try:
        copied = draft / path.name
        shutil.copyfile(path, copied)
        # Of the copy: the file may be written again while it is read.
        stored = StoredWeights(sha256=hash_file(copied), file=path.name)
        if weights.lineage is not None:
            write_lineage(draft, weights.lineage)
        draft.chmod(0o755)
        place = weights_path(folder, stored)
        # Damaged weights are replaced by the same ones, intact.
        if place.is_file() and hash_file(place) != stored.sha256:
            shutil.rmtree(place.parent)
        # The folder exists: the same weights were registered before, or are registered by another process now.
        with contextlib.suppress(FileExistsError, OSError):
            os.rename(draft, place.parent)
        return stored
    finally:
        shutil.rmtree(draft, ignore_errors=True)
