"""Which files a recipe reads, however it reads them: an adapter is only as good as the data that it still stands for."""

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
_reading: dict[int, set[Path]] = {}
"""Threads that are listened to, and what they have read."""


@contextlib.contextmanager
def files_read() -> Iterator[set[Path]]:
    """Gathers the files that this thread opens for reading within the block; programs and installed files do not count.

    Other threads are not heard, nor what a module read when it was imported before.
    """
    _listen()
    me = threading.get_ident()
    found = _reading[me] = set()
    try:
        yield found
    finally:
        del _reading[me]


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _listen() -> None:
    sys.addaudithook(_heard)  # for good: hooks cannot be taken away


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := _reading.get(threading.get_ident())) is None:
        return
    name, _, flags = arguments
    if isinstance(name, str | bytes | os.PathLike) and not (flags or 0) & _WRITES:
        path = Path(os.path.abspath(os.fsdecode(name)))
        if path.suffix not in _PROGRAMS and path.is_file() and not _is_installed(path):
            found.add(path)


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in (*_folders(), "/proc", "/sys", "/dev"))


@cache
def _folders() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
