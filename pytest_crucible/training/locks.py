"""One process at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

PAUSE_S = 0.1

if sys.platform == "win32":  # pragma: no cover - where coverage is measured it is not
    import msvcrt

    def _taken(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _taken(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of that file within the block. `waiting` is called once, when another process holds it now.

    The file stays: were it removed, two processes could hold two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _taken(file):
            waiting()
            while not _taken(file):
                time.sleep(PAUSE_S)
        yield
