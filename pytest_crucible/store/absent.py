"""Keys that a table surely has not: of them nobody needs to ask the database, which is most of what a new model's run would ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable

MOST = 20_000
"""Keys that are held in memory. Who has more of them asks the database for each."""


class Absent:
    """Learns once which keys there are, and then of those that are added. What others add meanwhile, it does not see."""

    def __init__(self) -> None:
        self._there: set[str] | None = None
        self._added: set[str] = set()
        self._is_open = True

    def learn(self, keys: Callable[[int], Iterable[str]]) -> None:
        """Once: `keys(n)` gives up to n of them. From any thread."""
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
        """Is the key surely not there?"""
        there = self._there
        return self._is_open and there is not None and key not in there and key not in self._added

    def _give_up(self) -> None:
        self._is_open, self._there, self._added = False, None, set()
