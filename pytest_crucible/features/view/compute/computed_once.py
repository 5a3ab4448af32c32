"""Values that take long to compute: each is computed once, also where several pages wait for it, and the last ones stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ComputedOnce:
    """The last values that were computed, by their keys. Any thread may use it."""

    def __init__(self, worker: ThreadPoolExecutor, most: int) -> None:
        self._worker, self._most = worker, most
        self._values: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def start(self, key: Hashable, compute: Callable[[], T]) -> Future[T]:
        """Return the value of a key, perhaps not computed yet. What raised is computed again."""
        with self._lock:
            future = self._values.pop(key, None)
            if future is None or future.cancelled() or (future.done() and future.exception() is not None):
                future = self._worker.submit(compute)
            self._values[key] = future
            for other in list(self._values)[: -self._most]:
                del self._values[other]
            return future
