"""Limiter state shared by the workers of a run: a small memory-mapped file with locks.

It holds the numbers of a `Control` and, for each process, how many requests it has in flight. A process holds a lock on its
own row for as long as it lives; the kernel releases the lock when the process dies. Waiting processes look for such rows and
reclaim what they held. The last process to close removes the file.
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
from typing import Any

from pytest_crucible.backends.limiting.control import Control, LimiterState

# Rows of the shared file, one for each process: more than the workers of a run on one machine.
MOST_PROCESSES = 256
# How often a waiting process looks whether another one has made room.
POLL_S = 0.005
# How often a waiting process looks whether another one has died.
RECLAIM_S = 1.0
# Per process: whether the row is in use, its requests in flight, and whether some wait.
_ROW = struct.Struct("<ddd")
_BEGUN = struct.Struct("<d")


class SharedState(LimiterState):
    """Shared state: inside `with state as control:` all other processes are locked out."""

    poll_s = POLL_S

    def __init__(self, path: Path, control: Control) -> None:
        """`control` is the initial state, used by the first process. Raises OSError if no file can be mapped."""
        super().__init__(control)
        self._path = path
        self._fields = list(_fields(control))
        self._read = attrgetter(*(name for name, _, _ in self._fields))
        self._numbers = struct.Struct(f"<{len(self._fields)}d")
        self._rows_at = _BEGUN.size + self._numbers.size
        self._is_open, self._held, self._waits = 0.0, 0.0, 0.0
        """This process's own row."""
        self._held_before = 0.0
        """Requests in flight over all processes when this one entered."""
        self._reaped_at = -math.inf
        self._file = _open_locked(path, self._rows_at + MOST_PROCESSES * _ROW.size)
        self._map = mmap.mmap(self._file, 0)
        self._row = self._take_row()

    def __enter__(self) -> Control:
        # The first byte is the lock on the numbers; byte 1 + row is held for as long as its process lives.
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, 0)
        for (_, owner, name), number in zip(
            self._fields, self._numbers.unpack_from(self._map, _BEGUN.size), strict=True
        ):
            setattr(owner, name, number)
        self._held_before = self._control.window.held
        return self._control

    def __exit__(self, *error: object) -> None:
        self._held += self._control.window.held - self._held_before
        self._numbers.pack_into(self._map, _BEGUN.size, *self._read(self._control))
        _ROW.pack_into(self._map, self._offset(self._row), self._is_open, self._held, self._waits)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)

    def must_yield(self, control: Control) -> bool:
        if control.waiting <= self._waits:
            return False
        held = self._held + control.window.held - self._held_before
        return held >= min(control.window.size, control.window.ordinary) / control.processes

    def wait(self, control: Control, waits: bool) -> None:
        control.waiting += waits - self._waits
        self._waits = float(waits)

    def reclaim_dead(self, control: Control, now: float) -> None:
        if now - self._reaped_at < RECLAIM_S:
            return
        self._reaped_at = now
        self._remove_dead()

    def close(self) -> None:
        """Leave and return all permits that are still held; the last process removes the file."""
        if self._map.closed:
            return
        with self as control:
            self._remove_dead()
            self._clear_row(self._row)
            self._is_open = self._held = self._waits = 0.0
            if control.processes <= 0:
                self._path.unlink(missing_ok=True)
        self._map.close()
        os.close(self._file)

    def _take_row(self) -> int:
        """Take a free row. The file is locked already."""
        if not _BEGUN.unpack_from(self._map, 0)[0]:
            self._control.processes = 0.0
            self._numbers.pack_into(self._map, _BEGUN.size, *self._read(self._control))
            _BEGUN.pack_into(self._map, 0, 1.0)
        row = next((row for row in range(MOST_PROCESSES) if self._lock(row)), None)
        if row is None:
            raise OSError(f"more than {MOST_PROCESSES} processes share a limiter: run fewer workers, for example -n 8")
        self._row = row
        with self as control:
            self._clear_row(row)  # its last owner may have died
            self._is_open = 1.0
            control.processes += 1
        return row

    def _remove_dead(self) -> None:
        for row in range(MOST_PROCESSES):
            if row != self._row and _ROW.unpack_from(self._map, self._offset(row))[0] and self._lock(row):
                self._clear_row(row)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 1 + row)

    def _clear_row(self, row: int) -> None:
        """Forget a process that has ended: it has no requests in flight."""
        there, held, waits = _ROW.unpack_from(self._map, self._offset(row))
        self._control.window.held -= held
        self._held_before -= held
        self._control.waiting -= waits
        self._control.processes -= there
        _ROW.pack_into(self._map, self._offset(row), 0.0, 0.0, 0.0)

    def _lock(self, row: int) -> bool:
        """Lock a row; False while its owner lives."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 + row)
        except OSError:
            return False
        return True

    def _offset(self, row: int) -> int:
        return self._rows_at + row * _ROW.size


def _open_locked(path: Path, size: int) -> int:
    """Open or create the file and lock it; try again if its last process removed it in between."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
        # The last process may remove the file between opening and locking it: then this one is orphaned.
        if path.exists() and path.stat().st_ino == os.fstat(file).st_ino:
            os.ftruncate(file, size)
            return file
        os.close(file)


def _fields(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield every number of a control and of its parts: dotted name, object, attribute."""
    for name in sorted(owner.__slots__):
        value = getattr(owner, name)
        if isinstance(value, int | float):
            yield f"{prefix}{name}", owner, name
        else:
            yield from _fields(value, f"{prefix}{name}.")
