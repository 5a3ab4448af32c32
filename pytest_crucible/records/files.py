"""Files: their hash, and a lock between processes, which the system releases when its process ends, even when it is killed."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

PAUSE_S = 0.1  # a training takes seconds at least, so that polling ten times a second costs nothing beside it

if sys.platform == "win32":  # pragma: no cover - where coverage is measured it is not
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_locked(path: Path) -> bool:
    """Return whether another process holds the lock of a file now."""
    if not path.exists():
        return False
    # Closing the file releases a lock that was free.
    with path.open("ab") as file:
        return not _try_lock(file)


@contextlib.contextmanager
def file_lock(path: Path, wait: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Hold the lock of a file within the block. `wait` is called once where another process holds it.

    A process that inherits the open file holds the lock too.

    The file is not removed afterwards: two processes could then hold locks on two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _try_lock(file):
            wait()
            while not _try_lock(file):
                time.sleep(PAUSE_S)
        yield file
