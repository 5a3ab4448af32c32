"""The values that all processes of a run have found, passed on through a folder that only this user can read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_TICK_S = 0.05
"""A folder that changed within this time may change again without another time of its last change."""
_READY = ".values"


class SharedValues:
    """Writes new values to files, and reads those of other processes.

    They are masked with the run's key, which is on no disk: what a killed run leaves behind says nothing.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        self._read: set[str] = set()
        self._changed_ns = 0

    def __call__(self, new: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Pass on (type, value) pairs, and return those of other processes that were not returned before."""
        pairs = [list(pair) for pair in new]
        if pairs:
            self._write(json.dumps(pairs).encode())
        changed_ns = self._folder.stat().st_mtime_ns
        if changed_ns == self._changed_ns:
            return []
        if changed_ns < time.time_ns() - _TICK_S * 1e9:
            self._changed_ns = changed_ns
        return list(self._unread())

    def _unread(self) -> Iterator[tuple[str, str]]:
        for name in sorted(set(os.listdir(self._folder)) - self._read):
            if name.endswith(_READY):
                self._read.add(name)
                data = self._mask(name, (self._folder / name).read_bytes())
                yield from ((kind, value) for kind, value in json.loads(data))

    def _write(self, data: bytes) -> None:
        name = f"{os.getpid()}-{time.time_ns()}{_READY}"
        self._read.add(name)
        draft = self._folder / f"{name}.new"
        draft.write_bytes(self._mask(name, data))
        draft.rename(self._folder / name)

    def _mask(self, name: str, data: bytes) -> bytes:
        """Return the data combined with a stream that the key and the file's name give; twice, it is the data again."""
        stream = hashlib.shake_256(self._key + name.encode()).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))
