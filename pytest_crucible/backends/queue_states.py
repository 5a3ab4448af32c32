"""Services that let requests wait: which, and why. A service reports it from a thread of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class QueueStates:
    """The sentences of all clients whose requests wait at their service. Thread-safe."""

    def __init__(self) -> None:
        self._pauses: dict[int, str] = {}
        self._listeners: list[Callable[[str], None]] = []

    def report(self, client: int, pause: str) -> None:
        """Record why a client's requests wait, such as `Tinker is paused: rate limit`; empty where they do not."""
        before = self._pauses.get(client, "")
        if not pause:
            self._pauses.pop(client, None)
        else:
            self._pauses[client] = pause
        if pause and pause != before:
            for listener in tuple(self._listeners):
                listener(pause)

    def is_paused(self, client: int) -> bool:
        """Return whether a client's requests wait."""
        return client in self._pauses

    def describe(self) -> str:
        """Return one of the sentences; empty where no request waits."""
        return next(iter(tuple(self._pauses.values())), "")

    @contextlib.contextmanager
    def listening(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call a function with each pause that begins, in the thread that reports it."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
