"""Numbers of values: equal values have equal numbers, counted for each type, in one process or in all workers of a run."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import threading
from collections.abc import Callable
from pathlib import Path

GetNumber = Callable[[str, str], int]
"""Returns the number of a value, from its type and itself. Callable from any thread."""


class LocalNumbers:
    """Numbers the values of one process: the first value of a type is 1."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: str, value: str) -> int:
        with self._lock:
            numbers = self._numbers.setdefault(kind, {})
            return numbers.setdefault(value, len(numbers) + 1)


class SharedNumbers:
    """Numbers of all processes that share a folder and a key: a file for each number holds its value's keyed hash."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        # The hashes by number that this process has read, the first with number 1.
        self._read: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: str, value: str) -> int:
        with self._lock:
            return self._number(kind, _digest(self._key, value))

    def _number(self, kind: str, digest: str) -> int:
        numbers = self._read.setdefault(kind, {})
        while digest not in numbers:
            number = len(numbers) + 1
            numbers[self._claim(self._folder / f"{kind}_{number}", digest)] = number
        return numbers[digest]

    def _claim(self, file: Path, digest: str) -> str:
        """Write a hash to a file that is not there yet, or return the one that another process wrote."""
        own = self._folder / f"{os.getpid()}.new"
        own.write_text(digest)
        # A link is there with its content or not at all, and only one process can make it.
        with contextlib.suppress(FileExistsError):
            os.link(own, file)
        # What is written next must be another file.
        own.unlink()
        return file.read_text()


def _digest(key: bytes, value: str) -> str:
    return hmac.new(key, value.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
