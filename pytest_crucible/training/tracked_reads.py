"""Records the files that a recipe reads through any library: an adapter is out of date when one of them changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

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


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
