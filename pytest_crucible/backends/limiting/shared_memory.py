"""What the workers of one run know of a server together: a small file that all of them map, and a lock on it.

It holds the numbers of a `Control` and, for each process, how many requests it has under way. A process holds a lock on its
own row for as long as it lives, which the kernel releases when it dies; whoever waits looks for such rows and takes back
what they held. The last process to close removes the file.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_crucible.backends.limiting.control import Control

MOST_PROCESSES = 256
LOOKS_S = 0.005
"""How often who waits looks whether another process has made room."""
REAPS_S = 1.0
"""How often who waits looks whether another process has died."""
_ROW = struct.Struct("<ddd")
"""Of each process: that it is there, its requests under way, and whether some wait."""
_BEGUN = struct.Struct("<d")


class SharedMemory:
    """Inside `with memory as control:` all other processes stand still."""

    looks_s = LOOKS_S

    def __init__(self, path: Path, control: Control) -> None:
        """`control` says how it begins, where this is the first process. Raises OSError where no file can be mapped."""
        self._path = path
        self._control = control
        self._places = list(_places(control))
        self._read = attrgetter(*(name for name, _, _ in self._places))
        self._numbers = struct.Struct(f"<{len(self._places)}d")
        self._rows_at = _BEGUN.size + self._numbers.size
        self._there, self._held, self._waits = 0.0, 0.0, 0.0
        """Of this process."""
        self._found = 0.0
        """What all held when this process entered."""
        self._reaped_at = -math.inf
        self._file = _locked(path, self._rows_at + MOST_PROCESSES * _ROW.size)
        self._map = mmap.mmap(self._file, 0)
        self._row = self._begin()

    def __enter__(self) -> Control:
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, 0)
        for (_, owner, name), number in zip(
            self._places, self._numbers.unpack_from(self._map, _BEGUN.size), strict=True
        ):
            setattr(owner, name, number)
        self._found = self._control.window.held
        return self._control

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held += self._control.window.held - self._found
        self._numbers.pack_into(self._map, _BEGUN.size, *self._read(self._control))
        _ROW.pack_into(self._map, self._place(self._row), self._there, self._held, self._waits)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)

    def is_others_turn(self, control: Control) -> bool:
        if control.waiting <= self._waits:
            return False
        held = self._held + control.window.held - self._found
        return held >= min(control.window.size, control.window.ordinary) / control.processes

    def wait(self, control: Control, waits: bool) -> None:
        control.waiting += waits - self._waits
        self._waits = float(waits)

    def reap(self, control: Control, now: float) -> None:
        if now - self._reaped_at < REAPS_S:
            return
        self._reaped_at = now
        self._bury_dead()

    def close(self) -> None:
        """Leave, with what is still held; the last one takes the file with it."""
        if self._map.closed:
            return
        with self as control:
            self._bury_dead()
            self._bury(self._row)
            self._there = self._held = self._waits = 0.0
            if control.processes <= 0:
                self._path.unlink(missing_ok=True)
        self._map.close()
        os.close(self._file)

    def _begin(self) -> int:
        """Take a row. The lock is held already."""
        if not _BEGUN.unpack_from(self._map, 0)[0]:
            self._control.processes = 0.0
            self._numbers.pack_into(self._map, _BEGUN.size, *self._read(self._control))
            _BEGUN.pack_into(self._map, 0, 1.0)
        row = next((row for row in range(MOST_PROCESSES) if self._lock(row)), None)
        if row is None:
            raise OSError(f"more than {MOST_PROCESSES} processes share a limiter")
        self._row = row
        with self as control:
            self._bury(row)  # if its last owner died
            self._there = 1.0
            control.processes += 1
        return row

    def _bury_dead(self) -> None:
        for row in range(MOST_PROCESSES):
            if row != self._row and _ROW.unpack_from(self._map, self._place(row))[0] and self._lock(row):
                self._bury(row)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 1 + row)

    def _bury(self, row: int) -> None:
        """A process is gone: nothing of it is under way."""
        there, held, waits = _ROW.unpack_from(self._map, self._place(row))
        self._control.window.held -= held
        self._found -= held
        self._control.waiting -= waits
        self._control.processes -= there
        _ROW.pack_into(self._map, self._place(row), 0.0, 0.0, 0.0)

    def _lock(self, row: int) -> bool:
        """False while its owner lives."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 + row)
        except OSError:
            return False
        return True

    def _place(self, row: int) -> int:
        return self._rows_at + row * _ROW.size


def _locked(path: Path, size: int) -> int:
    """Open the file, or create it, and lock it: anew when its last process has removed it in between."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
        if path.exists() and path.stat().st_ino == os.fstat(file).st_ino:
            os.ftruncate(file, size)
            return file
        os.close(file)


def _places(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every number of a control, and of the objects that it is made of: dotted name, object, attribute."""
    for name in sorted(owner.__slots__):
        value = getattr(owner, name)
        if isinstance(value, int | float):
            yield f"{prefix}{name}", owner, name
        else:
            yield from _places(value, f"{prefix}{name}.")
