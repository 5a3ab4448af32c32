"""The queue of waiting requests: the arms take turns, and within an arm the first comes first."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class RoundRobin(Generic[Waiter]):
    """Keeps an arm with many requests from delaying the arm that it is compared with.

    >>> queue = RoundRobin()
    >>> for arm, waiter in [("v2", "a"), ("v2", "b"), ("v1", "c")]:
    ...     queue.add(arm, waiter)
    >>> [queue.next() for _ in range(3)]
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
        """Remove and return the next waiter. Raises StopIteration if the queue is empty."""
        arm = next(iter(self._arms))
        waiting = self._arms.pop(arm)
        waiter = waiting.popleft()
        if waiting:
            # Put last: the arm has had its turn.
            self._arms[arm] = waiting
        return waiter

    def remove(self, arm: str, waiter: Waiter) -> None:
        """Remove a waiter that gave up, if it is still queued."""
        waiting = self._arms.get(arm, deque())
        if waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._arms[arm]
