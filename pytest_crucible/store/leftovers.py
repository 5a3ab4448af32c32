"""Folders beside a run store that features leave where they are interrupted, which `crucible gc` removes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Leftovers:
    """The leftovers of one feature, such as the saved states of interrupted trainings."""

    key: str
    """Their key in the JSON document of `crucible gc`."""
    noun: str
    folders: Mapping[Path, int]
    """Folder -> bytes on disk."""


def remove_leftovers(leftovers: Leftovers) -> int:
    """Remove leftovers; return the bytes freed."""
    for folder in leftovers.folders:
        # Another process may remove the same one.
        shutil.rmtree(folder, ignore_errors=True)
    return sum(size for folder, size in leftovers.folders.items() if not folder.exists())
