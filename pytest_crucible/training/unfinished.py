"""Unfinished trainings that are not continued: found by their age, and removed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_crucible.training.locks import is_locked


@dataclass(frozen=True)
class UnfinishedTraining:
    """The saved states of an interrupted training."""

    path: Path
    size: int
    """Bytes on disk. States on a service are not counted, nor removed."""


def find_unfinished(folder: Path, before: float) -> list[UnfinishedTraining]:
    """Return the trainings whose newest state was saved before a time, in seconds since 1970, and that no process runs."""
    homes = [home for home in sorted(folder.glob(".unfinished-*")) if home.is_dir()]
    return [
        UnfinishedTraining(home, _size(home))
        for home in homes
        if _saved_at(home) < before and not is_locked(folder / f"{home.name.removeprefix('.unfinished-')}.lock")
    ]


def remove_unfinished(trainings: list[UnfinishedTraining]) -> int:
    """Remove unfinished trainings; return the bytes freed."""
    for training in trainings:
        # Another process may remove the same one.
        shutil.rmtree(training.path, ignore_errors=True)
    return sum(training.size for training in trainings if not training.path.exists())


def _saved_at(home: Path) -> float:
    # The newest file, because a training that goes on replaces its states.
    return max(path.stat().st_mtime for path in (home, *home.rglob("*")))


def _size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
