"""Files of trainings: those that a recipe reads, and unfinished trainings that are removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_crucible.records.files import is_locked

_PROGRAMS = frozenset({".py", ".pyc", ".pyi", ".so", ".pyd", ".dll"})
_WRITES = os.O_WRONLY | os.O_RDWR
_tracked: dict[int, set[Path]] = {}
"""Tracked threads and the files that each has opened; empty while no recipe runs."""


@contextlib.contextmanager
def track_reads() -> Iterator[set[Path]]:
    """Collect the files that this thread opens for reading within the block, without programs and installed files.

    Files of other threads are not collected, nor files that a module has read when it was imported earlier.
    """
    _install_hook()
    thread = threading.get_ident()
    files = _tracked[thread] = set()
    try:
        yield files
    finally:
        del _tracked[thread]


@cache
def _install_hook() -> None:
    # Python cannot remove an audit hook, so it is installed once, by the first training of a process, and returns at once
    # while nothing is tracked. To replace `open` for the time of a training would miss modules that have bound it already,
    # and numpy would keep the replacement.
    sys.addaudithook(_record_open)


def _record_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (files := _tracked.get(threading.get_ident())) is None:
        return
    # os.open reports its flags, open() those of its mode; files opened for writing are not data.
    name, _, flags = arguments
    if isinstance(name, str | bytes | os.PathLike) and not (flags or 0) & _WRITES:
        path = Path(os.path.abspath(os.fsdecode(name)))
        if path.suffix not in _PROGRAMS and path.is_file() and not _is_installed(path):
            files.add(path)


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in (*_folders(), "/proc", "/sys"))


@cache
def _folders() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


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
