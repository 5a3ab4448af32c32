"""Names of Tinker models that stay the same on every machine."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from pytest_crucible.backends.tinker.service_address import ServiceAddress

CHECKPOINT = "tinker://"


def identify_model(address: ServiceAddress, model: str, *, is_own: bool, is_local: bool) -> str:
    """Return the identity of a checkpoint or a base model.

    The local model's full name is a path; its last two parts name the weights in any folder. Models of a service other
    than the session's own have its URL before their name.
    """
    if is_local and not model.startswith(CHECKPOINT):
        model = "/".join(PurePosixPath(Path(model).as_posix()).parts[-2:])
    return model if is_own else f"{address.url} {model}"


def key_digest(key: str | None) -> str:
    """Return 8 characters that differ between keys and reveal none."""
    return hashlib.sha256((key or "").encode()).hexdigest()[:8]
