"""Who waits for a turn: within an arm first come, first served, and the arms one after the other."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class Turns(Generic[Waiter]):
    """So that an arm that asks much does not hold up the one that it is compared with.

    >>> turns = Turns()
    >>> for arm, waiter in [("v2", "a"), ("v2", "b"), ("v1", "c")]:
    ...     turns.add(arm, waiter)
    >>> [turns.next() for _ in range(3)]
    ['a', 'c', 'b']
    """

    __slots__ = ("_arms",)

    def __init__(self) -> None:
        self._arms: dict[str, deque[Waiter]] = {}

    def __bool__(self) -> bool:
        return bool(self._arms)

    def add(self, arm: str, waiter: Waiter) -> None:
        self._arms.setdefault(arm, deque()).append(waiter)

    def next(self) -> Waiter:
        """Take out whose turn it is. Raises StopIteration when nobody waits."""
        arm = next(iter(self._arms))
        waiting = self._arms.pop(arm)
        waiter = waiting.popleft()
        if waiting:
            self._arms[arm] = waiting
        return waiter

    def remove(self, arm: str, waiter: Waiter) -> None:
        """Somebody waits no longer, if it was not their turn already."""
        waiting = self._arms.get(arm, deque())
        if waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._arms[arm]
