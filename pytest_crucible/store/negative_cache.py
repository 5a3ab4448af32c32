"""A negative cache: keys known to be absent, so that a new model's run need not query the database for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

MOST = 20_000
"""Keys held in memory. With more of them, every lookup queries the database."""


class AbsentKeys:
    """Reads the existing keys once, and then notes those that are added. Keys that other processes add are not noticed."""

    def __init__(self) -> None:
        self._there: set[str] | None = None
        self._added: set[str] = set()
        self._is_open = True

    def learn(self, keys: Callable[[int], Iterable[str]]) -> None:
        """Read the existing keys, once: `keys(n)` returns up to n of them. Callable from any thread."""
        if self._is_open and self._there is None:
            there = set(keys(MOST + 1))
            if len(there) > MOST:
                self._give_up()
            else:
                self._there = there

    def add(self, key: str) -> None:
        if self._is_open:
            self._added.add(key)
            if len(self._added) > MOST:
                self._give_up()

    def __contains__(self, key: str) -> bool:
        """Return whether the key is certainly absent."""
        there = self._there
        return self._is_open and there is not None and key not in there and key not in self._added

    def _give_up(self) -> None:
        self._is_open, self._there, self._added = False, None, set()
