"""The origin of an adapter: the facts and files that decide its replies besides its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """The facts and files that an adapter's replies depend on, as far as they are known without opening it."""

    facts: tuple[str | None, ...] = ()
    """The base, the recipe, the service."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The adapter's files that are on this machine, with their SHA-256."""


def shorten_path(path: Path, folder: Path) -> str:
    """Return the path, relative to the folder if it is below it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
