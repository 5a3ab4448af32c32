"""Folders that sessions have left: environments of commits, and worktrees of sessions that were killed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pytest_crucible.features.commits import FEATURE
from pytest_crucible.features.commits.environment import find_unused
from pytest_crucible.features.commits.repository import find_repository
from pytest_crucible.records.errors import SpecError


def find_leftovers(folder: Path, before: float) -> dict[Path, int]:
    """Return folder -> bytes of what no session needs: `folder` has the files of the project."""
    return {place: _size(place) for place in _find(folder, before)}


def _find(folder: Path, before: float) -> Iterator[Path]:
    yield from find_unused(folder / FEATURE.name, before)
    # A project without git has no worktrees.
    with contextlib.suppress(SpecError):
        repository = find_repository(folder.resolve().parent, FEATURE.name)
        for tree in repository.orphans():
            # Git's own record of a worktree is a folder, too.
            yield from (tree.parent, repository.record_of(tree))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
